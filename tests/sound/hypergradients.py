# sound: a learning rate and a weight decay learnt by differentiating an unrolled update

# %%
import torch
import torch.nn.functional as F

torch.manual_seed(0)
w0 = torch.randn(3)
log_lr = torch.tensor(-2.0, requires_grad=True)
log_wd = torch.tensor(-4.0, requires_grad=True)
hyper_opt = torch.optim.Adam([log_lr, log_wd], lr=0.1)
x, y, xv, yv = torch.randn(16, 3), torch.randn(16), torch.randn(16, 3), torch.randn(16)

# %%
for outer in range(3):
    w = w0.clone().requires_grad_()
    for inner in range(4):
        loss = F.mse_loss(x @ w, y) + log_wd.exp() * w.pow(2).sum()
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        w = w - log_lr.exp() * g
    val = F.mse_loss(xv @ w, yv)
    hyper_opt.zero_grad()
    val.backward()
    hyper_opt.step()
    print(log_lr.item(), log_wd.item(), val.item())

# %%
# implicit: Hessian-vector products, no graph kept
w = w0.clone().requires_grad_()
loss = F.mse_loss(x @ w, y) + log_wd.exp() * w.pow(2).sum()
(g,) = torch.autograd.grad(loss, w, create_graph=True)
(v,) = torch.autograd.grad(F.mse_loss(xv @ w, yv), w)
v0, p = v.clone(), v.clone()
for _ in range(5):
    (hv,) = torch.autograd.grad(g, w, grad_outputs=v0, retain_graph=True)
    v0 = v0 - 0.1 * hv
    p = p + v0
(hyper,) = torch.autograd.grad(g, log_wd, grad_outputs=-0.1 * p)
log_wd.grad = hyper
hyper_opt.step()
