# faulty: one cell with backward and step, run again without clearing

# %%
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
x = torch.randn(16, 3)

# %%
loss = (x @ w - 1).pow(2).mean()
loss.backward()
with torch.no_grad():
    w -= 0.1 * w.grad

# %%
loss = (x @ w - 1).pow(2).mean()
loss.backward()  # blame
with torch.no_grad():
    w -= 0.1 * w.grad
