# sound: a sweep over learning rates that puts the weights back, then training

# %%
import copy
import math

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
loader = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(10)]


# %%
def find_lr(init_value=1e-4, final_value=1.0, beta=0.98):
    num = len(loader) - 1
    mult = (final_value / init_value) ** (1 / num)
    lr = init_value
    optimizer.param_groups[0]["lr"] = lr
    avg_loss, best_loss = 0.0, 0.0
    losses, log_lrs = [], []
    for batch_num, (x, y) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        avg_loss = beta * avg_loss + (1 - beta) * loss.data.item()
        smoothed_loss = avg_loss / (1 - beta**batch_num)
        if batch_num > 1 and smoothed_loss > 4 * best_loss:
            return log_lrs, losses
        if smoothed_loss < best_loss or batch_num == 1:
            best_loss = smoothed_loss
        losses.append(smoothed_loss)
        log_lrs.append(math.log10(lr))
        loss.backward()
        optimizer.step()
        lr *= mult
        optimizer.param_groups[0]["lr"] = lr
    return log_lrs, losses


# %%
saved = copy.deepcopy(net.state_dict())
logs, losses = find_lr()
net.load_state_dict(saved)
print(logs[0], losses[-1])

# %%
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()

# %%
backup = [p.data.clone() for p in net.parameters()]
for lr in (0.01, 0.1):
    for p, b in zip(net.parameters(), backup):
        p.data.copy_(b)
    trial = torch.optim.SGD(net.parameters(), lr=lr)
    for x, y in loader[:3]:
        trial.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        trial.step()
    print(lr, loss.item())
