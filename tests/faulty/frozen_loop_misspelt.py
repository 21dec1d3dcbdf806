# faulty: parameters are frozen by a misspelt attribute, in a loop

# %%
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
for p in net[0].parameters():
    p.require_grad = False  # blame
