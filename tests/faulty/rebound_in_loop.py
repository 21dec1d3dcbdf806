# faulty: weights are rebound by the update, in a cell of its own

# %%
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
x = torch.randn(8, 3)

# %%
loss = (x @ w).pow(2).mean()
loss.backward()

# %%
w = w - 0.1 * w.grad  # blame
