# sound: clipping by norm, by value, by hand, through .data and by a hook on leaves

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = 10 * torch.randn(16, 4), 10 * torch.randn(16, 1)


def loss_of():
    return nn.functional.mse_loss(net(x), y)


# %%
for _ in range(2):
    opt.zero_grad()
    loss_of().backward()
    total = nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    opt.step()
print(float(total))

# %%
for _ in range(2):
    opt.zero_grad()
    loss_of().backward()
    for p in net.parameters():
        p.grad.data.clamp_(-1, 1)
    opt.step()


# %%
def grad_clipping(net, theta):
    params = [p for p in net.parameters() if p.requires_grad]
    norm = torch.sqrt(sum(torch.sum((p.grad**2)) for p in params))
    if norm > theta:
        for param in params:
            param.grad[:] *= theta / norm


for _ in range(2):
    opt.zero_grad()
    loss_of().backward()
    grad_clipping(net, 1)
    opt.step()

# %%
norms = []
for _ in range(2):
    opt.zero_grad()
    loss_of().backward()
    total_norm = 0
    for p in net.parameters():
        param_norm = p.grad.detach().data.norm(2)
        total_norm += param_norm.item() ** 2
    norms.append(total_norm**0.5)
    opt.step()

# %%
for p in net.parameters():
    p.register_hook(lambda grad: torch.clamp(grad, -0.5, 0.5))
for _ in range(2):
    opt.zero_grad()
    loss_of().backward()
    opt.step()
