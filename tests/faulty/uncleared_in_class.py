# faulty: a trainer's method that never clears gradients

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def fit(self, x, n):
        for _ in range(n):
            loss = (self.net(x) - 1).pow(2).mean()
            loss.backward()  # blame
            self.opt.step()


t = Trainer()

# %%
t.fit(torch.randn(16, 3), 12)
