# sound: methods are passed on, displayed, and called; detach_ and contexts are used as they are

# %%
import contextlib
import io

import torch
from torch import nn

net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
torch.set_grad_enabled(True)

# %%
clear = opt.zero_grad
stack = contextlib.ExitStack()
for _ in range(2):
    clear()
    loss = net(torch.ones(3, 2)).square().mean()
    loss.backward()
    opt.step()
with stack:
    stack.enter_context(torch.no_grad())
    value = net(torch.ones(1, 2))
buffer = io.TextIOWrapper(io.BytesIO())
buffer.detach()
h = net(torch.ones(1, 2))
h.detach_()

# %%
out = net(torch.ones(1, 2))
out.detach()

# %%
loss.backward
