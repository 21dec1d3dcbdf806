# faulty: losses collected in a list are copied into a new tensor

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
batches = [torch.randn(4, 3) for _ in range(3)]

# %%
losses = []
for b in batches:
    losses.append(net(b).pow(2).mean())
total = torch.tensor(losses, requires_grad=True).mean()  # blame
opt.zero_grad()
total.backward()
opt.step()
