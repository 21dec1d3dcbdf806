# faulty: gradients are clipped by a generator that is empty from the second step on

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

# %%
params = net.parameters()
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    nn.utils.clip_grad_norm_(params, 1.0)  # blame
    opt.step()
