# faulty: a sparsity term is computed in numpy and added to the loss

# %%
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randn(8, 2)

# %%
for _ in range(2):
    out = net(x)
    fit = (out - y).pow(2).mean()
    sparsity = torch.tensor(np.abs(out.data.numpy()).mean())  # blame
    loss = fit + 0.1 * sparsity
    opt.zero_grad()
    loss.backward()
    opt.step()
