# faulty: a running loss keeps every graph, in a training function's caller

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)

# %%
history = []
for epoch in range(2):
    for step in range(4):
        loss = net(torch.randn(4, 3)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss)  # blame
