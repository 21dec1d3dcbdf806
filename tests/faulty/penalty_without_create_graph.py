# faulty: a gradient penalty in a function, without create_graph

# %%
import torch
from torch import nn

torch.manual_seed(0)
D = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(D.parameters())


def penalty(real, fake):
    mix = (0.5 * real + 0.5 * fake).requires_grad_()
    g = torch.autograd.grad(D(mix).sum(), mix, retain_graph=True)[0]  # blame
    return ((g.norm(dim=1) - 1) ** 2).mean()


# %%
for _ in range(2):
    real, fake = torch.randn(8, 2), torch.randn(8, 2)
    loss = D(fake).mean() - D(real).mean() + 10 * penalty(real, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
