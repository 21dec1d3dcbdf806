# sound: SimSiam: stop-gradient on either side of one network

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
        self.predictor = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))

    def forward(self, x1, x2):
        z1, z2 = self.encoder(x1), self.encoder(x2)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return p1, p2, z1.detach(), z2.detach()


def D(p, z):
    z = z.detach()
    return -(F.normalize(p, dim=1) * F.normalize(z, dim=1)).sum(dim=1).mean()


model = SimSiam()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(16, 6)

# %%
for step in range(3):
    x1, x2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    p1, p2, z1, z2 = model(x1, x2)
    loss = D(p1, z2) / 2 + D(p2, z1) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    std = F.normalize(z1, dim=1).std(0).mean().item()

# %%
f, h = model.encoder, model.predictor
for step in range(3):
    x1, x2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    z1, z2 = f(x1), f(x2)
    p1, p2 = h(z1), h(z2)
    L = -(F.cosine_similarity(p1, z2.data) + F.cosine_similarity(p2, z1.data)).mean() / 2
    opt.zero_grad()
    L.backward()
    opt.step()
print(L.item(), std)
