# sound: PGD in several spellings, projection through .data, under no_grad, by autograd.grad

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
x, y = torch.rand(6, 10), torch.randint(0, 3, (6,))
eps, alpha = 0.1, 0.03

# %%
delta = torch.zeros_like(x, requires_grad=True)
for t in range(5):
    loss = F.cross_entropy(model(x + delta), y)
    loss.backward()
    delta.data = (delta + alpha * delta.grad.detach().sign()).clamp(-eps, eps)
    delta.grad.zero_()
print(delta.detach().abs().max())

# %%
x_adv = x.clone().detach()
for _ in range(5):
    x_adv.requires_grad_()
    with torch.enable_grad():
        loss = F.cross_entropy(model(x_adv), y)
    grad = torch.autograd.grad(loss, [x_adv])[0]
    x_adv = x_adv.detach() + alpha * torch.sign(grad.detach())
    x_adv = torch.min(torch.max(x_adv, x - eps), x + eps).clamp(0, 1)

# %%
adv = (x + eps * (2 * torch.rand_like(x) - 1)).requires_grad_(True)
for _ in range(5):
    model.zero_grad()
    loss = F.cross_entropy(model(adv), y)
    loss.backward()
    with torch.no_grad():
        adv += alpha * adv.grad.sign()
        adv.copy_(torch.clamp(adv, min=x - eps, max=x + eps))
        adv.grad = None

# %%
images = x.clone()
ori = images.data
for i in range(4):
    images.requires_grad = True
    outputs = model(images)
    model.zero_grad()
    cost = F.cross_entropy(outputs, y)
    cost.backward()
    adv_images = images + alpha * images.grad.sign()
    eta = torch.clamp(adv_images - ori, min=-eps, max=eps)
    images = torch.clamp(ori + eta, min=0, max=1).detach_()

# %%
noise = torch.zeros(1, 10, requires_grad=True)
opt = torch.optim.Adam([noise], lr=0.05)
for _ in range(4):
    opt.zero_grad()
    (-F.cross_entropy(model(x + noise), y)).backward()
    opt.step()
    noise.data.clamp_(-eps, eps)
