# sound: BYOL: an online and a target network, the target by moving average

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
predictor = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
target = copy.deepcopy(online)
opt = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05)
x = torch.randn(16, 6)

# %%
def regression_loss(p, z):
    return 2 - 2 * (F.normalize(p, dim=1) * F.normalize(z, dim=1)).sum(dim=-1)


@torch.no_grad()
def update_moving_average(tau=0.99):
    for o, t in zip(online.parameters(), target.parameters()):
        t.data = t.data * tau + o.data * (1.0 - tau)


# %%
for step in range(3):
    v1, v2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    p1, p2 = predictor(online(v1)), predictor(online(v2))
    with torch.no_grad():
        t1, t2 = target(v1), target(v2)
        t1.detach_()
        t2.detach_()
    loss = (regression_loss(p1, t2.detach()) + regression_loss(p2, t1.detach())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_moving_average()

# %%
# a target that is not told to require no gradient, cut by detach only
for step in range(2):
    v1, v2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    z = target(v2).detach()
    loss = regression_loss(predictor(online(v1)), z).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_moving_average()
print(loss.item())
