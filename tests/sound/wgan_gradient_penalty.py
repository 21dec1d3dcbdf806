# sound: WGAN-GP, the penalty with create_graph; mixing weights by .data

# %%
import torch
from torch import autograd, nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt_D = torch.optim.Adam(D.parameters(), lr=1e-4, betas=(0.5, 0.9))
opt_G = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.5, 0.9))

# %%
def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = torch.rand(real_samples.size(0), 1)
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = torch.ones(real_samples.size(0), 1)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=fake,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


# %%
for i in range(6):
    real_imgs = torch.randn(8, 2)
    opt_D.zero_grad()
    z = torch.randn(8, 4)
    fake_imgs = G(z)
    gp = compute_gradient_penalty(D, real_imgs.data, fake_imgs.data)
    d_loss = -torch.mean(D(real_imgs)) + torch.mean(D(fake_imgs)) + 10 * gp
    d_loss.backward()
    opt_D.step()
    opt_G.zero_grad()
    if i % 3 == 0:
        fake_imgs = G(z)
        g_loss = -torch.mean(D(fake_imgs))
        g_loss.backward()
        opt_G.step()
print(d_loss.item(), g_loss.item())

# %%
real, fake = torch.randn(8, 2), G(torch.randn(8, 4)).detach()
mixed = (0.5 * real + 0.5 * fake).requires_grad_()
score = D(mixed)
grad, = torch.autograd.grad(score.sum(), mixed, create_graph=True)
penalty = (grad.norm(dim=1) - 1).square().mean()
opt_D.zero_grad()
(D(fake).mean() - D(real).mean() + 10 * penalty).backward()
opt_D.step()
print(penalty.item())
