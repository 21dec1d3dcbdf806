# sound: linear regression with nothing but tensors; update under no_grad, cleared in place

# %%
import torch

torch.manual_seed(0)
X = torch.randn(64, 3)
true_w = torch.tensor([1.5, -2.0, 0.7])
y = X @ true_w + 0.1 * torch.randn(64)

# %%
w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
print(w.grad, b.grad)

# %%
lr = 0.1
for step in range(20):
    pred = X @ w + b
    loss = ((pred - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
        b -= lr * b.grad
        w.grad.zero_()
        b.grad.zero_()
    if step % 5 == 0:
        print(f"step {step}: loss {loss:.4f}")

# %%
for step in range(20):
    loss = ((X @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p.sub_(lr * p.grad)
            p.grad = None
print(w, b.item())

# %%
error = (w.detach() - true_w).abs().max()
print(float(error), loss.item())
