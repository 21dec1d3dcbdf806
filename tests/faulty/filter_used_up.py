# faulty: an optimizer uses up the filter that is counted afterwards

# %%
import torch
from torch import nn

net = nn.Linear(3, 1)
params = filter(lambda p: p.requires_grad, net.parameters())
opt = torch.optim.SGD(params, lr=0.1)
count = sum(p.numel() for p in params)  # blame
