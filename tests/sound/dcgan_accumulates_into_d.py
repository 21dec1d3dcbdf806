# sound: the generator's step adds to the discriminator's gradient, which is cleared before use

# %%
import torch
from torch import nn

torch.manual_seed(0)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


netG = nn.Sequential(
    nn.ConvTranspose2d(8, 8, 4, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
    nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
)
netD = nn.Sequential(
    nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(8, 1, 4, bias=False), nn.Sigmoid(),
)
netG.apply(weights_init)
netD.apply(weights_init)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCELoss()

# %%
img_list = []
for epoch in range(2):
    for i in range(2):
        netD.zero_grad(set_to_none=False)
        real = torch.randn(4, 1, 8, 8)
        label = torch.full((4,), 1.0)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        fake = netG(torch.randn(4, 8, 1, 1))
        errD_fake = criterion(netD(fake.detach()).view(-1), label * 0)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad(set_to_none=False)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
    with torch.no_grad():
        img_list.append(netG(torch.randn(2, 8, 1, 1)).detach().cpu())

# %%
# zeroed only right before each backward of its own
for i in range(2):
    fake = netG(torch.randn(4, 8, 1, 1))
    optimizerG.zero_grad()
    (-torch.log(netD(fake))).mean().backward()
    optimizerG.step()
    optimizerD.zero_grad()
    (-torch.log(1 - netD(fake.detach())) - torch.log(netD(torch.randn(4, 1, 8, 8)))).mean().backward()
    optimizerD.step()
