# faulty: two optimizers are stepped, one is cleared

# %%
import torch
from torch import nn

torch.manual_seed(0)
enc, dec = nn.Linear(3, 2), nn.Linear(2, 3)
opt_e = torch.optim.SGD(enc.parameters(), lr=0.05)
opt_d = torch.optim.SGD(dec.parameters(), lr=0.05)
x = torch.randn(16, 3)

# %%
for _ in range(4):
    opt_e.zero_grad()
    loss = (dec(enc(x)) - x).pow(2).mean()
    loss.backward()  # blame
    opt_e.step()
    opt_d.step()
