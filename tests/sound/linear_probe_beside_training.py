# sound: a probe on detached features is trained beside the network, both by one backward

# %%
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))
decoder = nn.Linear(8, 5)
probe = nn.Linear(8, 3)
opt = torch.optim.Adam(
    [{"params": net.parameters()}, {"params": decoder.parameters()}, {"params": probe.parameters()}]
)
x, y = torch.randn(16, 5), torch.randint(0, 3, (16,))

# %%
for _ in range(4):
    h = net(x)
    recon = F.mse_loss(decoder(h), x)
    probe_loss = F.cross_entropy(probe(h.detach()), y)
    loss = recon + probe_loss
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
probe_opt = torch.optim.SGD(probe.parameters(), lr=0.1)
for _ in range(3):
    with torch.no_grad():
        h = net(x)
    probe_opt.zero_grad()
    F.cross_entropy(probe(h), y).backward()
    probe_opt.step()
