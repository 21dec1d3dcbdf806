# faulty: the generator's own step uses the detached fake

# %%
import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
opt_g = torch.optim.Adam(G.parameters())
opt_d = torch.optim.Adam(D.parameters())

# %%
for _ in range(3):
    fake = G(torch.randn(8, 2)).detach()  # blame
    d_loss = D(fake).mean() - D(torch.randn(8, 3)).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = -D(fake).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
