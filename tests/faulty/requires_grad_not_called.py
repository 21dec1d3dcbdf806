# faulty: requires_grad_ has no parentheses

# %%
import torch

w = torch.zeros(2)
w.requires_grad_  # blame
scale = (w * 2).sum()
