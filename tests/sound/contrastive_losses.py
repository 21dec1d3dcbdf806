# sound: NT-Xent, triplet, MoCo with a queue; hard negatives picked by indices

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
x = torch.randn(8, 6)

# %%
def nt_xent(z1, z2, temperature=0.5):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    sim.fill_diagonal_(float("-inf"))
    n = z1.size(0)
    labels = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, labels)


for _ in range(3):
    loss = nt_xent(encoder(x + 0.1 * torch.randn_like(x)), encoder(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
for _ in range(3):
    emb = encoder(x)
    with torch.no_grad():
        dist = torch.cdist(emb, emb)
        same = labels[:, None] == labels[None]
        pos = dist.masked_fill(~same, 0).argmax(1)
        neg = dist.masked_fill(same, 1e9).argmin(1)
    loss = F.triplet_margin_loss(emb, emb[pos], emb[neg])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# indices of hard negatives by way of numpy
emb = encoder(x)
d = torch.cdist(emb.detach(), emb.detach()).numpy()
hardest = torch.from_numpy(d.argmax(axis=1))
loss = F.relu(1 - (emb - emb[hardest]).pow(2).sum(1)).mean() + emb.pow(2).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()

# %%
encoder_k = copy.deepcopy(encoder)
queue = F.normalize(torch.randn(8, 32), dim=0)
for _ in range(3):
    q = F.normalize(encoder(x), dim=1)
    with torch.no_grad():
        for pq, pk in zip(encoder.parameters(), encoder_k.parameters()):
            pk.data = pk.data * 0.99 + pq.data * 0.01
        k = F.normalize(encoder_k(x + 0.05 * torch.randn_like(x)), dim=1)
    l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
    l_neg = torch.einsum("nc,ck->nk", [q, queue.clone().detach()])
    logits = torch.cat([l_pos, l_neg], dim=1) / 0.07
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue = torch.cat([queue[:, 8:], k.t()], dim=1)
