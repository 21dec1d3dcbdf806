# sound: pseudo-labels and consistency: argmax, thresholds, mean teacher

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
teacher = copy.deepcopy(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x_l, y_l, x_u = torch.randn(8, 5), torch.randint(0, 3, (8,)), torch.randn(24, 5)

# %%
for step in range(3):
    logits_u = model(x_u)
    probs, pseudo = torch.max(torch.softmax(logits_u.detach(), dim=-1), dim=-1)
    mask = probs.ge(0.4).float()
    strong = model(x_u + 0.2 * torch.randn_like(x_u))
    loss_u = (F.cross_entropy(strong, pseudo, reduction="none") * mask).mean()
    loss = F.cross_entropy(model(x_l), y_l) + loss_u
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for step in range(3):
    hard = model(x_u).argmax(dim=1)
    soft = F.one_hot(model(x_u).argmax(dim=1), 3).float()
    loss = F.cross_entropy(model(x_u), hard) - (soft * F.log_softmax(model(x_u), 1)).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for step in range(3):
    consistency = F.mse_loss(model(x_u).softmax(1), teacher(x_u).softmax(1).data)
    loss = F.cross_entropy(model(x_l), y_l) + consistency
    opt.zero_grad()
    loss.backward()
    opt.step()
    for t, s in zip(teacher.parameters(), model.parameters()):
        t.data.mul_(0.99).add_(s.data, alpha=0.01)
acc = (model(x_l).argmax(1) == y_l).float().mean()
print(f"accuracy {acc:.2f}")
