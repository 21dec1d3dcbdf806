# sound: first-order MAML on deep copies, and Reptile through .data

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta_opt = torch.optim.SGD(model.parameters(), lr=0.1)


def task():
    a, b = torch.rand(2)
    x = torch.randn(10, 1)
    return x, a * torch.sin(x + b)


# %%
# FOMAML: gradients of the adapted copy are handed to the model
for it in range(3):
    meta_opt.zero_grad()
    for _ in range(2):
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.05)
        x, y = task()
        for _ in range(3):
            loss = F.mse_loss(fast(x), y)
            inner.zero_grad()
            loss.backward()
            inner.step()
        xq, yq = task()
        q_loss = F.mse_loss(fast(xq), yq)
        grads = torch.autograd.grad(q_loss, fast.parameters())
        for p, g in zip(model.parameters(), grads):
            p.grad = g.clone() if p.grad is None else p.grad + g
    meta_opt.step()

# %%
# Reptile
outer_lr = 0.2
for it in range(3):
    weights_before = copy.deepcopy(model.state_dict())
    x, y = task()
    for _ in range(3):
        model.zero_grad()
        F.mse_loss(model(x), y).backward()
        for param in model.parameters():
            param.data -= 0.05 * param.grad.data
    weights_after = model.state_dict()
    model.load_state_dict(
        {n: weights_before[n] + (weights_after[n] - weights_before[n]) * outer_lr
         for n in weights_before}
    )

# %%
for it in range(3):
    clone = copy.deepcopy(model)
    opt = torch.optim.SGD(clone.parameters(), lr=0.05)
    x, y = task()
    for _ in range(3):
        opt.zero_grad()
        F.mse_loss(clone(x), y).backward()
        opt.step()
    meta_opt.zero_grad()
    for p, q in zip(model.parameters(), clone.parameters()):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        p.grad.data.add_(p.data - q.data)
    meta_opt.step()
