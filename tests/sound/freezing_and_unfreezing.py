# sound: layers frozen in one cell and thawed in another; groups added to the optimizer

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def run(opt, n=2):
    for _ in range(n):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()


# %%
run(opt)

# %%
net[0].requires_grad_(False)
for p in net[2].parameters():
    p.requires_grad = False
run(opt)
print([n for n, p in net.named_parameters() if p.requires_grad])

# %%
for p in net.parameters():
    p.requires_grad = True
run(opt)

# %%
opt = torch.optim.SGD(net[4].parameters(), lr=0.1)
run(opt)

# %%
opt.add_param_group({"params": net[2].parameters(), "lr": 0.01})
run(opt)

# %%
net[4] = nn.Linear(8, 2)
net.add_module("extra", nn.Identity())
opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-3)
run(opt)

# %%
net = nn.Sequential(*list(net.children())[:-1])
net.zero_grad()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
run(opt)
