# sound: GAN, the discriminator's step and the generator's in cells of their own, run in turn

# %%
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
discriminator = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
bce = nn.BCEWithLogitsLoss()
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)

# %%
z = torch.randn(8, 4)
fake = generator(z)
d_optimizer.zero_grad()
d_loss = bce(discriminator(torch.randn(8, 2)), ones) + bce(discriminator(fake.detach()), zeros)
d_loss.backward()
d_optimizer.step()

# %%
g_optimizer.zero_grad()
g_loss = bce(discriminator(fake), ones)
g_loss.backward()
g_optimizer.step()

# %%
d_optimizer.zero_grad()
fake = generator(torch.randn(8, 4)).data
d_loss = bce(discriminator(torch.randn(8, 2)), ones) + bce(discriminator(fake), zeros)
d_loss.backward()
d_optimizer.step()

# %%
with torch.no_grad():
    fake = generator(torch.randn(8, 4))
d_optimizer.zero_grad()
bce(discriminator(fake), zeros).backward()
d_optimizer.step()

# %%
g_optimizer.zero_grad(set_to_none=False)
g_loss = bce(discriminator(generator(torch.randn(8, 4))), ones)
g_loss.backward()
g_optimizer.step()
print(d_loss.item(), g_loss.item())
