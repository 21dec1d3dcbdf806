# sound: several models side by side, some never trained; trained in the order A, B, A

# %%
import torch
from torch import nn

torch.manual_seed(0)
model_a = nn.Linear(4, 1)
model_b = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model_c = nn.GRU(4, 5, batch_first=True)
untouched = torch.zeros(3, requires_grad=True)
opt_a = torch.optim.SGD(model_a.parameters(), lr=0.1)
opt_b = torch.optim.Adam(model_b.parameters())
opt_c = torch.optim.Adam(model_c.parameters())
x, y = torch.randn(16, 4), torch.randn(16, 1)

# %%
def fit(model, opt, steps=3):
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


# %%
print(fit(model_a, opt_a))

# %%
print(fit(model_b, opt_b))

# %%
print(fit(model_a, opt_a))

# %%
results = {}
for name, model in {"a": model_a, "b": model_b, "new": nn.Linear(4, 1)}.items():
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    results[name] = fit(model, opt)
print(results)

# %%
out, _ = model_c(torch.randn(2, 3, 4))
print(out.shape, out.mean().item())

# %%
# residuals of A are the targets of B
with torch.no_grad():
    residual = y - model_a(x)
for _ in range(3):
    opt_b.zero_grad()
    nn.functional.mse_loss(model_b(x), residual).backward()
    opt_b.step()

# %%
preds = model_a(x).data.numpy()
for _ in range(2):
    loss = nn.functional.mse_loss(model_b(x) + torch.tensor(preds), y)
    opt_b.zero_grad()
    loss.backward()
    opt_b.step()
