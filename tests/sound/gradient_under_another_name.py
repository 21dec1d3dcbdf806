# sound: a gradient gets a name, is used at once, and the name is bound again each time

# %%
import torch

torch.manual_seed(0)
w = torch.ones(3, requires_grad=True)
x = torch.randn(5, 3)

# %%
(x @ w).pow(2).mean().backward()
g = w.grad
print(g.norm())

# %%
w.grad.zero_()
(x @ w).pow(2).mean().backward()
g = w.grad
with torch.no_grad():
    w -= 0.1 * g
print(g.norm())

# %%
w.grad.zero_()
(x @ w).pow(2).mean().backward()
g = w.grad
with torch.no_grad():
    w -= 0.1 * g
print(g.norm())

# %%
for _ in range(3):
    w.grad.zero_()
    loss = (x @ w).pow(2).mean()
    loss.backward()
    grad = w.grad
    grad.clamp_(-1, 1)
    w.data.sub_(0.1 * grad)

# %%
previous = w.grad.clone()
w.grad.zero_()
(x @ w).pow(2).mean().backward()
print((w.grad - previous).norm())
