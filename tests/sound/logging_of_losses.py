# sound: losses kept as floats, running averages, f-strings, progress text, TensorBoard-like logs

# %%
from collections import defaultdict

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
log = defaultdict(list)


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


# %%
meter, ema_loss, running = AverageMeter(), None, 0.0
for step in range(6):
    x = torch.randn(8, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.update(loss.item(), 8)
    log["loss"].append(loss.item())
    log["detached"].append(loss.detach())
    log["numpy"].append(loss.detach().cpu().numpy())
    log["weight"].append(net.weight.data.clone())
    log["grad"].append(net.weight.grad.norm().item())
    ema_loss = loss.detach() if ema_loss is None else 0.9 * ema_loss + 0.1 * loss.detach()
    running = 0.9 * running + 0.1 * float(loss)
    print(f"step {step}: loss={loss:.3f} avg={meter.avg:.3f}", f"{loss.item():.4f}", loss.data)
print("mean: %.3f" % np.mean(log["loss"]), torch.stack(log["detached"]).mean())

# %%
message = "loss {:.3f} weight {}".format(loss.item(), net.weight.tolist())
report = {"loss": round(loss.item(), 3), "norm": round(float(net.weight.norm()), 3)}
print(message, report, str(loss), repr(net.weight))

# %%
losses = []
for step in range(4):
    x = torch.randn(8, 3)
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    opt.step()
    losses += [loss.item()]
avg = sum(losses) / len(losses)
best = min(losses)
