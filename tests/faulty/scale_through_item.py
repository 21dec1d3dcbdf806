# faulty: a learnt scale is taken as a number

# %%
import torch

torch.manual_seed(0)
a = torch.randn(3, requires_grad=True)
log_scale = torch.zeros(1, requires_grad=True)
x = torch.randn(8, 3)

# %%
scale = log_scale.exp().item()  # blame
loss = (x @ a * scale - 1).pow(2).mean()
loss.backward()
print(a.grad, log_scale.grad)
