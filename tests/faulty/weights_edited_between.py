# faulty: weights are rescaled through .data between forward and backward

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.randn(8, 3)

# %%
loss = net(x).pow(2).mean()

# %%
net[2].weight.data.mul_(0.5)  # blame

# %%
loss.backward()
