# sound: samples by Langevin dynamics on inputs; an energy model; a fixed point by hand

# %%
import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(energy.parameters(), lr=1e-3)

# %%
def sample(n, steps=5):
    x = torch.rand(n, 2).requires_grad_()
    for _ in range(steps):
        g = torch.autograd.grad(energy(x).sum(), x)[0]
        x.data += -0.1 * g + 0.01 * torch.randn_like(x)
    return x.detach()


for _ in range(4):
    real, fake = torch.randn(16, 2), sample(16)
    loss = energy(real).mean() - energy(fake).mean()
    reg = energy(real).pow(2).mean() + energy(fake).pow(2).mean()
    opt.zero_grad()
    (loss + 0.1 * reg).backward()
    opt.step()

# %%
energy.requires_grad_(False)
inp = torch.rand(8, 2)
inp.requires_grad = True
noise = torch.randn_like(inp)
for _ in range(4):
    noise.normal_(0, 0.005)
    inp.data.add_(noise.data)
    out = energy(inp)
    out.sum().backward()
    inp.grad.data.clamp_(-0.03, 0.03)
    inp.data.add_(-inp.grad.data, alpha=0.1)
    inp.grad.detach_()
    inp.grad.zero_()
    inp.data.clamp_(min=0.0, max=1.0)
energy.requires_grad_(True)

# %%
W = torch.randn(3, 3) * 0.2
W.requires_grad_()
z = torch.zeros(3)
with torch.no_grad():
    for _ in range(20):
        z = torch.tanh(W @ z + 1)
z = torch.tanh(W @ z + 1)
z0 = z.clone().detach().requires_grad_()
f0 = torch.tanh(W @ z0 + 1)
z.sum().backward()
print(W.grad.norm(), f0.shape)
