# faulty: no_grad without with, in a method

# %%
import torch
from torch import nn


class Evaluator:
    def __init__(self, net):
        self.net = net

    def run(self, x):
        torch.no_grad()  # blame
        return self.net(x).mean()


# %%
net = nn.Linear(2, 1)
score = Evaluator(net).run(torch.ones(3, 2))
