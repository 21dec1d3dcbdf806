# sound: an exponential moving average of the weights, by .data, under no_grad and by a class

# %%
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
opt = torch.optim.Adam(model.parameters())
x, y = torch.randn(16, 4), torch.randn(16, 1)

# %%
decay = 0.9
for _ in range(3):
    loss = (model(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for e, p in zip(ema.parameters(), model.parameters()):
        e.data = decay * e.data + (1 - decay) * p.data

# %%
class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {}
        self.backup = {}
        for name, param in model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = param.data.clone()

    def update(self, model):
        for name, param in model.named_parameters():
            new = (1.0 - self.decay) * param.data + self.decay * self.shadow[name]
            self.shadow[name] = new.clone()

    def apply_shadow(self, model):
        for name, param in model.named_parameters():
            self.backup[name] = param.data
            param.data = self.shadow[name]

    def restore(self, model):
        for name, param in model.named_parameters():
            param.data = self.backup[name]
        self.backup = {}


average = EMA(model, 0.99)

# %%
for epoch in range(2):
    for _ in range(2):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        average.update(model)
    model.eval()
    average.apply_shadow(model)
    with torch.no_grad():
        print(nn.functional.mse_loss(model(x), y).item())
    average.restore(model)
    model.train()

# %%
with torch.no_grad():
    for e, p in zip(ema.parameters(), model.parameters()):
        e.mul_(decay).add_(p, alpha=1 - decay)
    for eb, b in zip(ema.buffers(), model.buffers()):
        eb.copy_(b)
