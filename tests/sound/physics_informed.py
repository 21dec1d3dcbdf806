# sound: a PINN: derivatives with respect to inputs, a slice of the input, results as inputs

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
t_boundary = torch.tensor(0.0).view(-1, 1).requires_grad_(True)
t_physics = torch.linspace(0, 1, 20).view(-1, 1).requires_grad_(True)
d, w0 = 2, 20

# %%
for i in range(4):
    opt.zero_grad()
    u = net(t_boundary)
    loss1 = (torch.squeeze(u) - 1) ** 2
    dudt = torch.autograd.grad(u, t_boundary, torch.ones_like(u), create_graph=True)[0]
    loss2 = (torch.squeeze(dudt) - 0) ** 2
    u = net(t_physics)
    dudt = torch.autograd.grad(u, t_physics, torch.ones_like(u), create_graph=True)[0]
    d2udt2 = torch.autograd.grad(dudt, t_physics, torch.ones_like(dudt), create_graph=True)[0]
    loss3 = torch.mean((d2udt2 + d * dudt + w0 * u) ** 2)
    loss = loss1 + 1e-1 * loss2 + 1e-4 * loss3
    loss.backward()
    opt.step()
    if i % 2 == 0:
        u = net(t_physics).detach()
        print(loss.item(), u.mean())

# %%
def grad(outputs, inputs):
    return torch.autograd.grad(
        outputs, inputs, grad_outputs=torch.ones_like(outputs), create_graph=True
    )


net2 = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt2 = torch.optim.Adam(net2.parameters(), lr=1e-2)
nu = torch.nn.Parameter(torch.tensor(0.1))
opt2.add_param_group({"params": [nu]})
for _ in range(3):
    xt = torch.rand(16, 2, requires_grad=True)
    x, t = xt[:, :1], xt[:, 1:]
    u = net2(torch.cat([x, t], dim=1))
    (u_x,), (u_t,) = grad(u, x), grad(u, t)
    (u_xx,) = grad(u_x, x)
    residual = u_t + u * u_x - nu * u_xx
    opt2.zero_grad()
    residual.pow(2).mean().backward()
    opt2.step()
print(nu.item())

# %%
pts = torch.rand(8, 2).double().requires_grad_()
scaled = 2 * pts - 1
out = net2(scaled.float())
(g,) = torch.autograd.grad(out.sum(), scaled)
print(g.shape, g.requires_grad)
