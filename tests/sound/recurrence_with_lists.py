# sound: outputs collected in lists within one graph; episodes cleared; losses summed then run

# %%
import torch
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(2, 6)
head = nn.Linear(6, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])
seq, y = torch.randn(8, 4, 2), torch.randn(8, 4, 1)

# %%
outs, h = [], torch.zeros(4, 6)
for t in range(8):
    h = cell(seq[t], h)
    outs.append(head(h))
loss = (torch.stack(outs) - y).pow(2).mean()
opt.zero_grad()
loss.backward()
opt.step()

# %%
total = 0
h = torch.zeros(4, 6)
for t in range(8):
    h = cell(seq[t], h)
    total = total + (head(h) - y[t]).pow(2).mean()
opt.zero_grad()
total.backward()
opt.step()
print(total / 8)

# %%
for epoch in range(4):
    losses, h = [], torch.zeros(4, 6)
    for t in range(8):
        h = cell(seq[t], h)
        losses.append((head(h) - y[t]).pow(2).mean())
    loss = sum(losses)
    opt.zero_grad()
    loss.backward()
    opt.step()
    mean = torch.stack(losses).mean().item()

# %%
# every step a backward of its own, the state kept on purpose until the end
h = torch.zeros(4, 6)
opt.zero_grad()
for t in range(4):
    h = cell(seq[t], h)
    (head(h) - y[t]).pow(2).mean().backward(retain_graph=True)
opt.step()
del h

# %%
predictions = []
for t in range(4):
    h_t = cell(seq[t], torch.zeros(4, 6))
    loss = (head(h_t) - y[t]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    predictions.append(head(h_t.detach()).detach())
print(torch.cat(predictions).mean())
