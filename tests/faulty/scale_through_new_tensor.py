# faulty: the scale is copied by new_tensor, in a function

# %%
import torch

shift = torch.zeros(1, requires_grad=True)
scale = torch.ones(1, requires_grad=True)
opt = torch.optim.SGD([shift, scale], lr=0.1)
x = torch.linspace(0, 1, 4)


def model(x):
    factor = x.new_tensor(scale)  # blame
    return x * factor + shift


# %%
opt.zero_grad()
loss = (model(x) - 2).square().mean()
loss.backward()
opt.step()
