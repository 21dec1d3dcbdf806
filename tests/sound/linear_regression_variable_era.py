# sound: a tutorial of 2017, update and clearing through .data everywhere

# %%
import torch
from torch.autograd import Variable

torch.manual_seed(0)
x = Variable(torch.randn(32, 10), requires_grad=False)
y = Variable(torch.randn(32, 2), requires_grad=False)
w1 = Variable(torch.randn(10, 16), requires_grad=True)
w2 = Variable(torch.randn(16, 2), requires_grad=True)

# %%
learning_rate = 1e-4
for t in range(10):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    print(t, loss.data.item())
    loss.backward()
    w1.data -= learning_rate * w1.grad.data
    w2.data -= learning_rate * w2.grad.data
    w1.grad.data.zero_()
    w2.grad.data.zero_()

# %%
y_pred = x.mm(w1).clamp(min=0).mm(w2)
print(y_pred.data[:2])
print((y_pred.data - y.data).abs().mean())

# %%
for t in range(10):
    loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
    if w1.grad is not None:
        w1.grad.data.zero_()
        w2.grad.data.zero_()
    loss.backward()
    w1.data.add_(w1.grad.data, alpha=-learning_rate)
    w2.data.add_(w2.grad.data, alpha=-learning_rate)
