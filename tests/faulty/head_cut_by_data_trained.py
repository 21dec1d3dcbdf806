# faulty: the encoder is in the optimizer, and its output goes on through .data

# %%
import torch
from torch import nn

torch.manual_seed(0)
enc, head = nn.Linear(4, 3), nn.Linear(3, 2)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()])
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))

# %%
for _ in range(3):
    h = torch.relu(enc(x)).data  # blame
    loss = nn.functional.cross_entropy(head(h), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
