# sound: L-BFGS with a closure, in one cell, in a function and with a penalty

# %%
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 20).unsqueeze(1)
y = x**2
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)

# %%
for i in range(3):

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    final = optimizer.step(closure)
    print(i, final.item())


# %%
class Fit:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
        self.losses = []

    def closure(self):
        if torch.is_grad_enabled():
            self.opt.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss = loss + 1e-4 * sum(p.pow(2).sum() for p in self.model.parameters())
        if loss.requires_grad:
            loss.backward()
        self.losses.append(loss.item())
        return loss

    def run(self, n):
        for _ in range(n):
            self.opt.step(self.closure)


fit = Fit(nn.Linear(1, 1))

# %%
fit.run(2)
print(fit.losses[-1])

# %%
a = torch.tensor([-1.2, 1.0], requires_grad=True)
opt = torch.optim.LBFGS([a])


def rosenbrock():
    opt.zero_grad()
    f = (1 - a[0]) ** 2 + 100 * (a[1] - a[0] ** 2) ** 2
    f.backward()
    return f


for _ in range(3):
    opt.step(rosenbrock)
print(a.data)
