# sound: pruning by masks through .data, re-initialising, weight clipping, max-norm

# %%
import torch
from torch import nn
from torch.nn.utils import prune

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(16, 6), torch.randn(16, 1)


def train(n):
    for _ in range(n):
        opt.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()


# %%
train(3)
masks = {}
for name, p in net.named_parameters():
    if "weight" in name:
        k = p.data.abs().flatten().kthvalue(p.numel() // 2).values
        masks[name] = (p.data.abs() > k).float()
        p.data.mul_(masks[name])

# %%
for _ in range(3):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    for name, p in net.named_parameters():
        if name in masks:
            p.grad.data.mul_(masks[name])
    opt.step()
    for name, p in net.named_parameters():
        if name in masks:
            p.data[masks[name] == 0] = 0.0

# %%
def weight_reset(m):
    if isinstance(m, nn.Linear):
        m.weight.data.normal_(0, 0.02)
        m.bias.data.zero_()


net.apply(weight_reset)
train(2)
for p in net.parameters():
    p.data = p.data.clamp(-0.5, 0.5)
train(2)

# %%
with torch.no_grad():
    for layer in net:
        if isinstance(layer, nn.Linear):
            norm = layer.weight.norm(dim=1, keepdim=True)
            layer.weight.mul_(norm.clamp(max=2.0) / norm)
train(1)

# %%
other = nn.Linear(6, 1)
prune.l1_unstructured(other, name="weight", amount=0.5)
opt2 = torch.optim.SGD(other.parameters(), lr=0.1)
for _ in range(3):
    opt2.zero_grad()
    nn.functional.mse_loss(other(x), y).backward()
    opt2.step()
prune.remove(other, "weight")
print((other.weight == 0).sum().item())
