# faulty: a trained width is cast to an integer dtype

# %%
import torch

w = torch.ones(1, requires_grad=True)
width = torch.full((1,), 3.7, requires_grad=True)
opt = torch.optim.SGD([w, width], lr=0.1)

# %%
for _ in range(2):
    steps = width.to(torch.int64)  # blame
    loss = (w * steps - 1).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
