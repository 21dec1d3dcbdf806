# sound: a state carried over chunks by detach, by .data and by detach_()

# %%
import torch
from torch import nn

torch.manual_seed(0)
rnn = nn.RNN(1, 8, batch_first=True)
out = nn.Linear(8, 1)
params = list(rnn.parameters()) + list(out.parameters())
opt = torch.optim.Adam(params, lr=0.01)
seq = torch.sin(torch.linspace(0, 12, 61)).view(1, 61, 1)
chunks = [(seq[:, i : i + 10], seq[:, i + 1 : i + 11]) for i in range(0, 60, 10)]

# %%
h = torch.zeros(1, 1, 8)
for x, y in chunks:
    o, h = rnn(x, h)
    loss = (out(o) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    h = h.detach()

# %%
h_state = None
for step in range(4):
    x, y = chunks[step]
    prediction, h_state = rnn(x, h_state)
    h_state = h_state.data
    loss = (out(prediction) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
h = torch.zeros(1, 1, 8)
for x, y in chunks:
    h.detach_()
    o, h = rnn(x, h)
    loss = (out(o) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(params, 1.0)
    opt.step()
print(loss.item())

# %%
# accumulate the loss over k steps, then backward and cut
cell = nn.RNNCell(1, 8)
opt2 = torch.optim.SGD(list(cell.parameters()) + list(out.parameters()), lr=0.01)
hx, total, losses = torch.zeros(1, 8), 0.0, []
for t in range(30):
    hx = cell(seq[:, t], hx)
    total = total + (out(hx) - seq[:, t + 1]).pow(2).mean()
    if (t + 1) % 10 == 0:
        opt2.zero_grad()
        total.backward()
        opt2.step()
        losses.append(total.item())
        hx, total = hx.detach(), 0.0
print(losses)
