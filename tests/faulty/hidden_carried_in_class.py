# faulty: a trainer keeps the hidden state with its graph

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRUCell(2, 4)
        self.h = torch.zeros(1, 4)

    def forward(self, x):
        self.h = self.rnn(x, self.h)  # blame
        return self.h.sum()


model = Model()

# %%
for _ in range(2):
    loss = model(torch.randn(1, 2))
    loss.backward()
