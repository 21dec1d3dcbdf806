# sound: transfer learning: the backbone frozen, then unfrozen; the optimizer made over

# %%
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
backbone.fc = nn.Linear(16, 10)
model = backbone
for param in model.parameters():
    param.requires_grad = False
num_ftrs = model.fc.in_features
model.fc = nn.Linear(num_ftrs, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(12, 8), torch.randint(0, 2, (12,))

# %%
for epoch in range(3):
    with torch.set_grad_enabled(True):
        outputs = model(x)
        _, preds = torch.max(outputs, 1)
        loss = criterion(outputs, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running = torch.sum(preds == y.data)
print(running.double() / 12)

# %%
for param in model.parameters():
    param.requires_grad = True
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(2):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()

# %%
# features once, then the head alone
features = nn.Sequential(nn.Linear(8, 6), nn.Tanh())
head = nn.Linear(6, 2)
with torch.no_grad():
    cached = features(x)
opt = torch.optim.Adam(head.parameters())
for epoch in range(3):
    loss = criterion(head(cached), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for epoch in range(2):
    f = features(x).data
    loss = criterion(head(f), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
