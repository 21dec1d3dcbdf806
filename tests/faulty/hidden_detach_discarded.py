# faulty: the detached hidden state is thrown away

# %%
import torch
from torch import nn

cell = nn.RNNCell(2, 2)
h = torch.zeros(1, 2)

# %%
for _ in range(3):
    h = cell(torch.ones(1, 2), h)
    h.detach()  # blame
