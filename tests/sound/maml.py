# sound: MAML with create_graph through functional forward, and with torch.func

# %%
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta_opt = torch.optim.Adam(net.parameters(), lr=1e-2)


def task():
    a, b = torch.rand(2)
    x = torch.randn(10, 1)
    return x, a * torch.sin(x + b)


# %%
def forward(params, x):
    h = torch.tanh(F.linear(x, params[0], params[1]))
    return F.linear(h, params[2], params[3])


for it in range(3):
    meta_loss = 0
    for _ in range(2):
        x, y = task()
        fast = list(net.parameters())
        for _ in range(2):
            loss = F.mse_loss(forward(fast, x), y)
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [p - 0.1 * g for p, g in zip(fast, grads)]
        xq, yq = task()
        meta_loss = meta_loss + F.mse_loss(forward(fast, xq), yq)
    meta_opt.zero_grad()
    meta_loss.backward()
    meta_opt.step()
print(meta_loss.item())

# %%
def adapt(params, x, y, lr=0.1):
    loss = F.mse_loss(functional_call(net, params, x), y)
    grads = torch.autograd.grad(loss, params.values(), create_graph=True)
    return {k: p - lr * g for (k, p), g in zip(params.items(), grads)}


for it in range(3):
    params = dict(net.named_parameters())
    x, y = task()
    params = adapt(params, x, y)
    loss = F.mse_loss(functional_call(net, params, x), y)
    meta_opt.zero_grad()
    loss.backward()
    meta_opt.step()
