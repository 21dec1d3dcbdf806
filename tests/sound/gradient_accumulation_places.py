# sound: a step every k batches; zero_grad after the step, before the first batch, at the end

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(8)]

# %%
accumulation_steps = 4
opt.zero_grad()
for i, (x, y) in enumerate(batches):
    loss = nn.functional.mse_loss(net(x), y) / accumulation_steps
    loss.backward()
    if (i + 1) % accumulation_steps == 0:
        opt.step()
        opt.zero_grad()

# %%
for i, (x, y) in enumerate(batches):
    if i % 2 == 0:
        opt.zero_grad(set_to_none=False)
    (nn.functional.mse_loss(net(x), y) / 2).backward()
    if i % 2 == 1:
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()

# %%
opt.zero_grad()
for i, (x, y) in enumerate(batches):
    loss = nn.functional.mse_loss(net(x), y)
    (loss / 3).backward()
    if (i + 1) % 3 == 0 or i + 1 == len(batches):
        opt.step()
        net.zero_grad()
    print(i, loss.item())


# %%
def train_epoch(net, opt, batches, k):
    total = 0.0
    for i, (x, y) in enumerate(batches, 1):
        loss = nn.functional.mse_loss(net(x), y)
        total += loss.item()
        (loss / k).backward()
        if i % k:
            continue
        opt.step()
        opt.zero_grad()
    return total / len(batches)


for k in (1, 2, 3, 4, 5):
    opt.zero_grad()
    print(k, train_epoch(net, opt, batches, k))
