# faulty: zero_grad stands before the loop

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(16, 3)

# %%
opt.zero_grad()
for _ in range(20):
    loss = (net(x) - 1).pow(2).mean()
    loss.backward()  # blame
    opt.step()
