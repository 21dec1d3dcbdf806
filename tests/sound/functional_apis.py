# sound: torch.func: grad, vmap over samples, functional_call, ensembles, a hand-written Adam

# %%
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, stack_module_state, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
x, y = torch.randn(10, 3), torch.randn(10, 1)
params = {k: v.detach() for k, v in net.named_parameters()}

# %%
def loss_fn(params, x, y):
    return F.mse_loss(functional_call(net, params, (x,)), y)


for _ in range(3):
    grads, value = grad_and_value(loss_fn)(params, x, y)
    params = {k: p - 0.1 * grads[k] for k, p in params.items()}
print(value.item())

# %%
per_sample = vmap(grad(loss_fn), in_dims=(None, 0, 0))(params, x, y)
norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
print(norms.max())

# %%
models = [nn.Linear(3, 1) for _ in range(3)]
stacked, buffers = stack_module_state(models)
base = models[0]
out = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(
    stacked, buffers, x
)
out.pow(2).mean().backward()
print(stacked["weight"].grad.shape)

# %%
with torch.no_grad():
    for k, p in net.named_parameters():
        p.copy_(params[k])
opt = torch.optim.SGD(net.parameters(), lr=0.1)
opt.zero_grad()
F.mse_loss(functional_call(net, dict(net.named_parameters()), (x,)), y).backward()
opt.step()

# %%
m = {k: torch.zeros_like(p) for k, p in params.items()}
for t in range(1, 4):
    leaves = {k: p.requires_grad_() for k, p in params.items()}
    gs = torch.autograd.grad(loss_fn(leaves, x, y), leaves.values())
    for (k, p), g in zip(params.items(), gs):
        m[k] = 0.9 * m[k] + 0.1 * g
        params[k] = (p - 0.1 * m[k]).detach()
