# sound: a denoising step; noise schedules are plain tensors, sampling under no_grad

# %%
import torch
from torch import nn

torch.manual_seed(0)
T = 50
betas = torch.linspace(1e-4, 0.02, T)
alphas_cumprod = torch.cumprod(1 - betas, dim=0)
sqrt_ac, sqrt_om = alphas_cumprod.sqrt(), (1 - alphas_cumprod).sqrt()
model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
ema_model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
ema_model.load_state_dict(model.state_dict())
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

# %%
def q_sample(x0, t, noise):
    return sqrt_ac[t].unsqueeze(1) * x0 + sqrt_om[t].unsqueeze(1) * noise


def p_losses(x0):
    t = torch.randint(0, T, (x0.shape[0],)).long()
    noise = torch.randn_like(x0)
    x_noisy = q_sample(x0, t, noise)
    pred = model(torch.cat([x_noisy, t.float().unsqueeze(1) / T], 1))
    return nn.functional.mse_loss(pred, noise)


# %%
for step in range(5):
    opt.zero_grad()
    loss = p_losses(torch.randn(16, 2))
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema_model.parameters(), model.parameters()):
            e.lerp_(p, 0.1)
    if step % 2 == 0:
        print("Loss:", loss.item())

# %%
@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2)
    for i in reversed(range(T)):
        t = torch.full((n, 1), i / T)
        eps = ema_model(torch.cat([x, t], 1))
        x = (x - betas[i] / sqrt_om[i] * eps) / (1 - betas[i]).sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


print(sample(4).mean())

# %%
loss = p_losses(torch.randn(16, 2))
opt.zero_grad()
loss.backward()
opt.step()
