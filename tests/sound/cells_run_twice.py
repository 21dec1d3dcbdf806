# sound: the same cell run again and again, as people do; gradients are cleared each time

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters(), lr=0.05)
x = torch.randn(16, 3)

# %%
opt.zero_grad()
loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
loss.backward()
opt.step()
print(loss.item())

# %%
opt.zero_grad()
loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
loss.backward()
opt.step()
print(loss.item())

# %%
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters(), lr=0.05)

# %%
opt.zero_grad()
loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
loss.backward()
opt.step()
print(loss.item())

# %%
w = torch.randn(3, requires_grad=True)
loss = (x @ w).pow(2).mean()
loss.backward()
print(w.grad)

# %%
w = torch.randn(3, requires_grad=True)
loss = (x @ w).pow(2).mean()
loss.backward()
print(w.grad)

# %%
a = torch.tensor(2.0, requires_grad=True)
b = a**2
b.backward()
print(a.grad)

# %%
a.grad.zero_()
b = a**3
b.backward()
print(a.grad)
