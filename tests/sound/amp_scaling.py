# sound: loss scaling by hand and by GradScaler, autocast on CPU

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))

# %%
scale = 128.0
for _ in range(3):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    (loss * scale).backward()
    ok = True
    for p in net.parameters():
        p.grad.div_(scale)
        ok = ok and bool(torch.isfinite(p.grad).all())
    if ok:
        opt.step()
    else:
        scale /= 2

# %%
scaler = torch.amp.GradScaler("cpu", enabled=True)
for _ in range(3):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
print(loss.item())

# %%
scaler = torch.amp.GradScaler("cpu", enabled=False)
for i in range(4):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y) / 2
    scaler.scale(loss).backward()
    if (i + 1) % 2 == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
