# sound: functions over parameters that make a list first, or choose one loop of two

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(8, 4)

# %%
def clip(params, theta):
    params = list(params)
    total = torch.sqrt(sum((p.grad**2).sum() for p in params))
    for p in params:
        p.grad.nan_to_num_()
    if total > theta:
        for p in params:
            p.grad.mul_(theta / total)


def decay(params, how):
    if how == "l2":
        for p in params:
            p.data.mul_(0.99)
    else:
        for p in params:
            p.data.sub_(0.001 * p.data.sign())


def freeze(params, flag):
    if not flag:
        for p in params:
            p.requires_grad = True
        return
    for p in params:
        p.requires_grad = False


# %%
for _ in range(2):
    opt.zero_grad()
    net(x).pow(2).mean().backward()
    clip(net.parameters(), 1.0)
    opt.step()
    decay(net.parameters(), "l1")
freeze(net.parameters(), True)
freeze(net.parameters(), False)

# %%
params = list(net.parameters())
for p in params:
    print(p.shape)
for p in params:
    print(p.numel())
named = net.named_parameters()
for n, p in named:
    print(n)
