# sound: several discriminator steps by functions before the generator is ever trained

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.map1 = nn.Linear(1, 5)
        self.map2 = nn.Linear(5, 1)

    def forward(self, x):
        return self.map2(torch.tanh(self.map1(x)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.map1 = nn.Linear(4, 5)
        self.map2 = nn.Linear(5, 1)

    def forward(self, x):
        return torch.sigmoid(self.map2(torch.relu(self.map1(x))))


G, D = Generator(), Discriminator()
criterion = nn.BCELoss()
d_optimizer = torch.optim.SGD(D.parameters(), lr=1e-3, momentum=0.9)
g_optimizer = torch.optim.SGD(G.parameters(), lr=1e-3, momentum=0.9)


def extract(v):
    return v.data.storage().tolist()


def stats(d):
    return [sum(d) / len(d), max(d)]


# %%
def train_discriminator():
    D.zero_grad()
    d_real_data = torch.randn(1, 4)
    d_real_decision = D(d_real_data)
    d_real_error = criterion(d_real_decision, torch.ones([1, 1]))
    d_real_error.backward()
    d_fake_data = G(torch.rand(4, 1)).detach()
    d_fake_decision = D(d_fake_data.t())
    d_fake_error = criterion(d_fake_decision, torch.zeros([1, 1]))
    d_fake_error.backward()
    d_optimizer.step()
    return d_real_error.item(), d_fake_error.item()


def train_generator():
    G.zero_grad()
    g_fake_data = G(torch.rand(4, 1))
    dg_fake_decision = D(g_fake_data.t())
    g_error = criterion(dg_fake_decision, torch.ones([1, 1]))
    g_error.backward()
    g_optimizer.step()
    return g_error.item()


# %%
for _ in range(5):
    dre, dfe = train_discriminator()
print(dre, dfe)

# %%
for _ in range(5):
    ge = train_generator()
print(ge)

# %%
for epoch in range(3):
    for _ in range(2):
        dre, dfe = train_discriminator()
    for _ in range(2):
        ge = train_generator()
print(stats([dre, dfe, ge]))
