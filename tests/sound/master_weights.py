# sound: a half-precision model and float32 master copies, gradients and values copied by .data

# %%
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2).bfloat16()
master = [p.detach().clone().float() for p in model.parameters()]
for p in master:
    p.requires_grad = True
opt = torch.optim.SGD(master, lr=0.1)
x, y = torch.randn(8, 4).bfloat16(), torch.randn(8, 2).bfloat16()

# %%
for step in range(4):
    loss = (model(x) - y).float().pow(2).mean()
    model.zero_grad()
    (loss * 64).backward()
    for m, p in zip(master, model.parameters()):
        if m.grad is None:
            m.grad = torch.empty_like(m)
        m.grad.data.copy_(p.grad.data)
        m.grad.data.mul_(1 / 64)
    opt.step()
    for m, p in zip(master, model.parameters()):
        p.data.copy_(m.data)
print(loss.item())
