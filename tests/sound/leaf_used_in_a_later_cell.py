# sound: leaves that no backward has reached yet, for their turn comes later

# %%
import torch
from torch import nn

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
temperature = nn.Parameter(torch.tensor(1.5))
net = nn.Linear(3, 4)
opt = torch.optim.Adam(net.parameters())
x, y = torch.randn(20, 3), torch.randint(0, 4, (20,))

# %%
loss = (x @ w).pow(2).mean()
loss.backward()
print(w.grad, b.grad)

# %%
w.grad = None
loss = (x @ w + b).pow(2).mean()
loss.backward()
print(w.grad, b.grad)

# %%
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x) / temperature.item(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
# calibration: the network is fixed, the temperature learns
t_opt = torch.optim.LBFGS([temperature], max_iter=5)
with torch.no_grad():
    logits = net(x)


def closure():
    t_opt.zero_grad()
    loss = nn.functional.cross_entropy(logits / temperature, y)
    loss.backward()
    return loss


t_opt.step(closure)
print(temperature.item())

# %%
logits = net(x).data
t_opt = torch.optim.SGD([temperature], lr=0.1)
for _ in range(3):
    t_opt.zero_grad()
    nn.functional.cross_entropy(logits / temperature, y).backward()
    t_opt.step()
