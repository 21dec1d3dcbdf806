# sound: a module runs its backbone under no_grad in forward, and all goes to one optimizer

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        self.backbone.eval()
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


model = Classifier(nn.Sequential(nn.Linear(5, 8), nn.ReLU()))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(12, 5), torch.randint(0, 3, (12,))

# %%
for _ in range(4):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())


# %%
def train(model, steps):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
    return loss.item()


print(train(model, 3))


# %%
class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(5, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        h = self.encoder(x).detach()
        return self.out(torch.relu(h))


net = Detached()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
