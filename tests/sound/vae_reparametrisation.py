# sound: a variational autoencoder; eps without gradient, logging by .item() and .data

# %%
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(12, 8)
        self.fc21 = nn.Linear(8, 3)
        self.fc22 = nn.Linear(8, 3)
        self.fc3 = nn.Linear(3, 8)
        self.fc4 = nn.Linear(8, 12)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        eps = std.data.new(std.size()).normal_()
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x, reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.rand(32, 12)

# %%
def train(epoch):
    model.train()
    train_loss = 0
    for i in range(0, 32, 8):
        optimizer.zero_grad()
        recon, mu, logvar = model(data[i : i + 8])
        loss = loss_function(recon, data[i : i + 8], mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"epoch {epoch}: {train_loss / 32:.3f}")


for epoch in range(3):
    train(epoch)

# %%
model.eval()
with torch.no_grad():
    recon, mu, logvar = model(data)
    sample = model.decode(torch.randn(4, 3))
print(loss_function(recon, data, mu, logvar).item())

# %%
model.train()
kl_weight = 0.0
for step in range(3):
    recon, mu, logvar = model(data)
    q = torch.distributions.Normal(mu, (0.5 * logvar).exp())
    z = q.rsample()
    bce = F.binary_cross_entropy(model.decode(z), data, reduction="sum")
    kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum()
    loss = bce + kl_weight * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kl_weight = min(1.0, kl_weight + 0.5)
    latents = z.detach().numpy()
