# sound: attributes of the user's own objects that look like tensors' attributes

# %%
import argparse
from types import SimpleNamespace

import torch
from torch import nn

args = argparse.Namespace(lr=0.1)
args.require_grad = True
args.data = "imagenet"
cfg = SimpleNamespace(data=[1, 2, 3], grad=None)
cfg.needs_grad = False
cfg.grad = 0.5


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)
        self.requires_gradient = True

    def forward(self, x):
        return self.fc(x)

    def zero_(self):
        return self

    def step(self):
        return self


# %%
w = Wrapper()
w.step()
out = w(torch.ones(1, 2))
out.sum().backward()
print(args.data, cfg.data, cfg.grad, w.requires_gradient)


# %%
class Value:
    def __init__(self, data):
        self.data, self.grad = data, 0.0

    def backward(self):
        self.grad = 1.0


v = Value(3.0)
v.backward()
v.backward()
v.data = v.data - 0.1 * v.grad
print(v.data)
