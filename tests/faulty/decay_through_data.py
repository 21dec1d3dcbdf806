# faulty: weight decay as a term of the loss, on weight.data

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randn(8, 2)

# %%
fit = (net(x) - y).pow(2).mean()
decay = (net.weight.data ** 2).sum()  # blame
loss = fit + 1e-2 * decay
opt.zero_grad()
loss.backward()
opt.step()
