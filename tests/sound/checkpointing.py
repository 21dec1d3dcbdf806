# sound: activation checkpointing of both kinds, in a sequential and in a module

# %%
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)])
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randn(8, 1)

# %%
for _ in range(3):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()

# %%
seq = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(4)])
seq_opt = torch.optim.SGD(seq.parameters(), lr=0.1)
inp = torch.randn(8, 4, requires_grad=True)
for _ in range(2):
    out = checkpoint_sequential(seq, 2, inp, use_reentrant=False)
    seq_opt.zero_grad()
    out.pow(2).mean().backward()
    seq_opt.step()
print(inp.grad.norm())

# %%
h = net.stem(x)
h = checkpoint(net.blocks[0], h, use_reentrant=True)
opt.zero_grad()
net.head(h).mean().backward()
opt.step()
