# faulty: a training function that never clears gradients

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(16, 3)


def train(n):
    for _ in range(n):
        loss = (net(x) - 1).pow(2).mean()
        loss.backward()  # blame
        opt.step()


# %%
train(3)

# %%
train(20)
