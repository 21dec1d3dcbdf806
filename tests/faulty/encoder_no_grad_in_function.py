# faulty: a helper runs the encoder under no_grad, though the optimizer holds it

# %%
import torch
from torch import nn

torch.manual_seed(0)
enc, head = nn.Linear(4, 3), nn.Linear(3, 2)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()])
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))


def features(x):
    with torch.no_grad():  # blame
        out = enc(x)
    return out


# %%
opt.zero_grad()
loss = nn.functional.cross_entropy(head(features(x)), y)
loss.backward()
opt.step()
