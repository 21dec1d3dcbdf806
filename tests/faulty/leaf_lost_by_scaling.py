# faulty: the leaf is scaled in the line that makes it

# %%
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True) * 0.1  # blame
x = torch.randn(8, 3)

# %%
loss = (x @ w).pow(2).mean()
loss.backward()
print(w.grad)
