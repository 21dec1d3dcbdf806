# sound: hard Gumbel-softmax from the library and by hand

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(6, 4)
decoder = nn.Linear(4, 6)
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
x = torch.randn(16, 6)

# %%
for _ in range(3):
    logits = encoder(x)
    z = F.gumbel_softmax(logits, tau=1.0, hard=True)
    loss = F.mse_loss(decoder(z), x)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
def gumbel_softmax_sample(logits, temperature):
    u = torch.rand(logits.size())
    y = logits - torch.log(-torch.log(u + 1e-9) + 1e-9)
    return F.softmax(y / temperature, dim=-1)


def gumbel_softmax(logits, temperature):
    y = gumbel_softmax_sample(logits, temperature)
    shape = y.size()
    _, ind = y.max(dim=-1)
    y_hard = torch.zeros_like(y).view(-1, shape[-1])
    y_hard.scatter_(1, ind.view(-1, 1), 1)
    y_hard = y_hard.view(*shape)
    return (y_hard - y).detach() + y


# %%
temperature = 1.0
for step in range(4):
    opt.zero_grad()
    z = gumbel_softmax(encoder(x), temperature)
    loss = F.mse_loss(decoder(z), x)
    loss.backward()
    opt.step()
    temperature = max(temperature * 0.9, 0.5)
usage = encoder(x).argmax(dim=-1).bincount(minlength=4)
print(usage, loss.item())
