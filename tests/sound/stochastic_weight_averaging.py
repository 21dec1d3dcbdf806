# sound: torch.optim.swa_utils beside the running model

# %%
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
swa_model = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
swa_scheduler = SWALR(optimizer, swa_lr=0.05)
loader = [torch.randn(8, 4) for _ in range(3)]
targets = [x.sum(1, keepdim=True) for x in loader]

# %%
for epoch in range(6):
    for x, t in zip(loader, targets):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), t).backward()
        optimizer.step()
    if epoch > 2:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
update_bn(loader, swa_model)

# %%
with torch.no_grad():
    print(sum(nn.functional.mse_loss(swa_model(x), t).item() for x, t in zip(loader, targets)))
