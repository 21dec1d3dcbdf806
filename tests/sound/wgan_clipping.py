# sound: WGAN; the critic is clipped through .data after each step, backward with a gradient

# %%
import torch
from torch import nn

torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
netD = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
optimizerD = torch.optim.RMSprop(netD.parameters(), lr=5e-5)
optimizerG = torch.optim.RMSprop(netG.parameters(), lr=5e-5)
one = torch.tensor(1.0)
mone = one * -1

# %%
for gen_iterations in range(3):
    for p in netD.parameters():
        p.requires_grad = True
    for j in range(3):
        for p in netD.parameters():
            p.data.clamp_(-0.01, 0.01)
        netD.zero_grad()
        errD_real = netD(torch.randn(8, 2)).mean()
        errD_real.backward(one)
        with torch.no_grad():
            noisev = torch.randn(8, 4)
        fake = netG(noisev).data
        errD_fake = netD(fake).mean()
        errD_fake.backward(mone)
        errD = errD_real - errD_fake
        optimizerD.step()
    for p in netD.parameters():
        p.requires_grad = False
    netG.zero_grad()
    errG = netD(netG(torch.randn(8, 4))).mean()
    errG.backward(one)
    optimizerG.step()
print(errD.data.item(), errG.item())

# %%
for p in netD.parameters():
    p.requires_grad_(True)
loss = netD(netG(torch.randn(8, 4)).detach()).mean() - netD(torch.randn(8, 2)).mean()
optimizerD.zero_grad()
loss.backward()
optimizerD.step()
with torch.no_grad():
    for p in netD.parameters():
        p.clamp_(-0.01, 0.01)
