# faulty: requires_grad is set on the module

# %%
import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 3), nn.Linear(3, 1)
backbone.requires_grad = False  # blame

# %%
head(backbone(torch.randn(2, 4))).sum().backward()
