# sound: first-order MAML with autograd.grad without create_graph, fast weights by subtraction

# %%
import torch
import torch.nn.functional as F

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)

# %%
for it in range(3):
    xs, ys, xq, yq = torch.randn(8, 4), torch.randn(8), torch.randn(8, 4), torch.randn(8)
    inner = F.mse_loss(xs @ w, ys)
    (g,) = torch.autograd.grad(inner, w)
    fast = w - 0.1 * g
    outer = F.mse_loss(xq @ fast, yq)
    opt.zero_grad()
    outer.backward()
    opt.step()

# %%
for it in range(3):
    xs, ys, xq, yq = torch.randn(8, 4), torch.randn(8), torch.randn(8, 4), torch.randn(8)
    (g,) = torch.autograd.grad(F.mse_loss(xs @ w, ys), w, create_graph=True)
    fast = w - 0.1 * g.detach()
    outer = F.mse_loss(xq @ fast, yq)
    opt.zero_grad()
    outer.backward()
    opt.step()
print(outer.item())
