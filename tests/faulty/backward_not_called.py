# faulty: backward has no parentheses, in a loop

# %%
import torch

w = torch.zeros(2, requires_grad=True)
for _ in range(3):
    loss = ((w - 1) ** 2).sum()
    loss.backward  # blame
