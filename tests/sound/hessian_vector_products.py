# sound: second derivatives: HVP, power iteration, a Hessian by jvp and by torch.func

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x, y = torch.randn(10, 3), torch.randn(10, 1)
params = list(net.parameters())

# %%
loss = (net(x) - y).pow(2).mean()
grads = torch.autograd.grad(loss, params, create_graph=True)
flat = torch.cat([g.reshape(-1) for g in grads])
v = torch.randn_like(flat)
v /= v.norm()
for _ in range(5):
    hv = torch.autograd.grad(flat @ v, params, retain_graph=True)
    hv = torch.cat([h.reshape(-1) for h in hv])
    eigenvalue = (hv @ v).item()
    v = hv / hv.norm()
print(eigenvalue)

# %%
loss = (net(x) - y).pow(2).mean()
loss.backward(create_graph=True)
g2 = sum(p.grad.pow(2).sum() for p in params)
print(g2.item())
for p in params:
    p.grad = None
del loss, g2

# %%
w = torch.randn(3, requires_grad=True)
H = torch.autograd.functional.hessian(lambda w: (x @ w).tanh().sum(), w)
J = torch.autograd.functional.jacobian(lambda w: (x @ w).tanh(), w)
print(H.shape, J.shape)

# %%
from torch.func import grad, hessian, jacrev, vjp, vmap

f = lambda w: (x @ w).tanh().sum()
print(grad(f)(w).shape, hessian(f)(w.detach()).shape)
out, pull = vjp(lambda w: x @ w, w.detach())
print(pull(torch.ones_like(out))[0], jacrev(lambda w: x @ w)(w.detach()).shape)
