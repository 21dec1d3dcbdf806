# sound: argmax in losses as label, mask, weight and float target, always beside scores

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model, teacher = nn.Linear(5, 2), nn.Linear(5, 2)
scorer = nn.Linear(5, 1)
opt = torch.optim.SGD([*model.parameters(), *scorer.parameters()], lr=0.1)
x = torch.randn(10, 5)

# %%
for _ in range(3):
    target = teacher(x).argmax(dim=1).float()
    loss = F.binary_cross_entropy_with_logits(scorer(x).squeeze(1), target)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for _ in range(3):
    logits = model(x)
    mask = logits.argmax(1).float()
    per_sample = F.cross_entropy(logits, torch.ones(10, dtype=torch.long), reduction="none")
    supervised = (per_sample * mask).mean()
    wrong = (logits.argmax(1) != 1).float()
    focus = (per_sample * wrong).mean()
    loss = supervised + focus
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
scores = model(x)
best = scores.argmax(1)
gap = scores.gather(1, best[:, None]).squeeze(1) - scores.mean(1)
agreement = scores.argmax(1).float().mean()
loss = gap.mean() + scorer(x).mean()
opt.zero_grad()
loss.backward()
print("agreement", agreement.item())
