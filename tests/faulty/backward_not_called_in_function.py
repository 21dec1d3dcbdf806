# faulty: backward has no parentheses, in a function of an earlier cell

# %%
import torch
from torch import nn

net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def train(x):
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward  # blame
    opt.step()


# %%
train(torch.ones(3, 2))
