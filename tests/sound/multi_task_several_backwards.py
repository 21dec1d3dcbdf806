# sound: several losses on one body, with retain_graph or summed; uncertainty weights

# %%
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
body, head_a, head_b = nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 1)
params = [*body.parameters(), *head_a.parameters(), *head_b.parameters()]
opt = torch.optim.Adam(params, lr=1e-2)
x, ya, yb = torch.randn(16, 5), torch.randint(0, 3, (16,)), torch.randn(16, 1)

# %%
for _ in range(3):
    h = torch.relu(body(x))
    loss_a = F.cross_entropy(head_a(h), ya)
    loss_b = F.mse_loss(head_b(h), yb)
    opt.zero_grad()
    loss_a.backward(retain_graph=True)
    loss_b.backward()
    opt.step()

# %%
log_vars = torch.zeros(2, requires_grad=True)
opt2 = torch.optim.Adam([*params, log_vars], lr=1e-2)
for _ in range(3):
    h = torch.relu(body(x))
    losses = torch.stack([F.cross_entropy(head_a(h), ya), F.mse_loss(head_b(h), yb)])
    loss = (torch.exp(-log_vars) * losses + log_vars).sum()
    opt2.zero_grad()
    loss.backward()
    opt2.step()
    history = {"a": losses[0].item(), "b": losses[1].item()}

# %%
# gradients of each task, to compare their norms
h = torch.relu(body(x))
la, lb = F.cross_entropy(head_a(h), ya), F.mse_loss(head_b(h), yb)
ga = torch.autograd.grad(la, body.parameters(), retain_graph=True)
gb = torch.autograd.grad(lb, body.parameters(), retain_graph=True)
dot = sum((a * b).sum() for a, b in zip(ga, gb))
scale = (ga[0].norm() / gb[0].norm()).item()
opt.zero_grad()
(la + scale * lb).backward()
opt.step()
print(dot.item())

# %%
# alternating: one task a step
for step in range(4):
    h = torch.relu(body(x))
    loss = F.cross_entropy(head_a(h), ya) if step % 2 else F.mse_loss(head_b(h), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
# two tasks, an optimizer each, both hold the body
opt_a = torch.optim.SGD([*body.parameters(), *head_a.parameters()], lr=0.05)
opt_b = torch.optim.SGD([*body.parameters(), *head_b.parameters()], lr=0.05)
for step in range(3):
    opt_a.zero_grad()
    F.cross_entropy(head_a(body(x)), ya).backward()
    opt_a.step()
    opt_b.zero_grad()
    F.mse_loss(head_b(body(x)), yb).backward()
    opt_b.step()
