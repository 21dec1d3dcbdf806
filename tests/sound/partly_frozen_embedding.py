# sound: some rows of an embedding are kept fixed by zeroing their gradient, others are copied back

# %%
import torch
from torch import nn

torch.manual_seed(0)
emb = nn.Embedding(10, 4, padding_idx=0)
pretrained = torch.randn(10, 4)
emb.weight.data.copy_(pretrained)
out = nn.Linear(4, 2)
opt = torch.optim.SGD([*emb.parameters(), *out.parameters()], lr=0.1)
tokens, y = torch.randint(0, 10, (6, 5)), torch.randint(0, 2, (6,))

# %%
for _ in range(3):
    loss = nn.functional.cross_entropy(out(emb(tokens).mean(1)), y)
    opt.zero_grad()
    loss.backward()
    emb.weight.grad[:5] = 0
    opt.step()

# %%
fixed = emb.weight.data[:5].clone()
for _ in range(3):
    loss = nn.functional.cross_entropy(out(emb(tokens).mean(1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    emb.weight.data[:5] = fixed

# %%
mask = torch.ones(10, 1)
mask[:5] = 0
handle = emb.weight.register_hook(lambda g: g * mask)
for _ in range(2):
    opt.zero_grad()
    nn.functional.cross_entropy(out(emb(tokens).mean(1)), y).backward()
    opt.step()
handle.remove()
