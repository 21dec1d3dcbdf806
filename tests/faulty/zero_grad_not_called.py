# faulty: zero_grad has no parentheses, in a function

# %%
import torch
from torch import nn

net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def step(x):
    opt.zero_grad  # blame
    loss = net(x).mean()
    loss.backward()
    opt.step()
    return loss.item()


# %%
step(torch.ones(3, 2))
