# sound: GAN, both steps in one loop; the fake is detached for the discriminator

# %%
import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
criterion = nn.BCELoss()
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4)
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4)
real_label, fake_label = 1.0, 0.0

# %%
G_losses, D_losses = [], []
for i in range(6):
    D.zero_grad()
    real = torch.randn(8, 2) + 2
    label = torch.full((8,), real_label)
    output = D(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()
    noise = torch.randn(8, 4)
    fake = G(noise)
    label.fill_(fake_label)
    output = D(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    errD = errD_real + errD_fake
    opt_d.step()
    G.zero_grad()
    label.fill_(real_label)
    output = D(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    D_G_z2 = output.mean().item()
    opt_g.step()
    G_losses.append(errG.item())
    D_losses.append(errD.item())
print(D_x, D_G_z1, D_G_z2)

# %%
# sum of both losses, one backward
for i in range(4):
    z = torch.randn(8, 4)
    fake = G(z).detach()
    d_loss = -(torch.log(D(torch.randn(8, 2))) + torch.log(1 - D(fake))).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = -torch.log(D(G(z))).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()

# %%
with torch.no_grad():
    print(G(torch.randn(3, 4)))
