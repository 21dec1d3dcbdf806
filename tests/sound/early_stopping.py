# sound: the best weights kept by deepcopy, by clone, by state_dict, and loaded again

# %%
import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y, xv, yv = torch.randn(16, 4), torch.randn(16, 1), torch.randn(16, 4), torch.randn(16, 1)

# %%
best_loss, best_model_wts, patience = float("inf"), copy.deepcopy(net.state_dict()), 0
for epoch in range(6):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(xv), yv)
    if val < best_loss:
        best_loss, patience = val, 0
        best_model_wts = copy.deepcopy(net.state_dict())
    else:
        patience += 1
        if patience > 3:
            break
net.load_state_dict(best_model_wts)

# %%
best = {k: v.clone() for k, v in net.state_dict().items()}
best_net = copy.deepcopy(net)
snapshots = []
for epoch in range(3):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    snapshots.append([p.data.clone() for p in net.parameters()])
    if loss.item() < best_loss:
        best_net = copy.deepcopy(net)
net.load_state_dict(best)

# %%
with torch.no_grad():
    for p, s in zip(net.parameters(), snapshots[-1]):
        p.copy_(s)
drift = (net.weight.detach() - best_net.weight.detach()).norm()
print(drift.item())


# %%
class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.best, self.count, self.stop = patience, None, 0, False

    def __call__(self, value, model):
        if self.best is None or value < self.best:
            self.best, self.count = value, 0
            self.weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
        else:
            self.count += 1
            self.stop = self.count >= self.patience


stopper = EarlyStopping()
for epoch in range(6):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    stopper(loss.item(), net)
    if stopper.stop:
        break
