# sound: VAT: a direction from a gradient is normalised and enters the loss as a constant

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y, xu = torch.randn(8, 6), torch.randint(0, 3, (8,)), torch.randn(16, 6)

# %%
def kl(p, q_logits):
    return F.kl_div(F.log_softmax(q_logits, 1), p, reduction="batchmean")


for step in range(3):
    with torch.no_grad():
        p = F.softmax(model(xu), 1)
    d = F.normalize(torch.randn_like(xu), dim=1).requires_grad_()
    adv_distance = kl(p, model(xu + 10 * d))
    (g,) = torch.autograd.grad(adv_distance, d)
    d = g / (g.norm(dim=1, keepdim=True) + 1e-8)
    r_adv = 0.5 * d
    lds = kl(p, model(xu + r_adv))
    loss = F.cross_entropy(model(x), y) + lds
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
def vat_loss(model, x, xi=10.0, eps=1.0):
    with torch.no_grad():
        pred = F.softmax(model(x), dim=1)
    d = torch.rand(x.shape).sub(0.5)
    d = F.normalize(d, dim=1)
    d.requires_grad_()
    dist = kl(pred, model(x + xi * d))
    dist.backward()
    d = F.normalize(d.grad, dim=1)
    model.zero_grad()
    return kl(pred, model(x + d * eps))


for step in range(3):
    opt.zero_grad()
    lds = vat_loss(model, xu)
    loss = F.cross_entropy(model(x), y) + lds
    loss.backward()
    opt.step()

# %%
# weights of samples from gradients with respect to inputs; saliency as importance
for step in range(3):
    xi = x.clone().requires_grad_()
    ce = F.cross_entropy(model(xi), y)
    saliency = torch.autograd.grad(ce, xi)[0]
    weight = saliency.abs().sum(1)
    weight = weight / weight.sum()
    loss = (weight * F.cross_entropy(model(x), y, reduction="none")).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
