# sound: a lesson on what detach, no_grad and requires_grad do; prints gradients that are None

# %%
import torch

a = torch.tensor([2.0, 3.0], requires_grad=True)
b = torch.tensor([6.0, 4.0], requires_grad=True)
Q = 3 * a**3 - b**2
Q.backward(gradient=torch.tensor([1.0, 1.0]))
print(9 * a**2 == a.grad, -2 * b == b.grad)

# %%
x = torch.rand(5, 5)
y = torch.rand(5, 5)
z = torch.rand((5, 5), requires_grad=True)
s = x + y
print(f"requires grad? {s.requires_grad}")
t = x + z
print(f"requires grad? {t.requires_grad}")

# %%
u = (z * 2).detach()
print(u.requires_grad, z.requires_grad)
with torch.no_grad():
    v = z * 2
print(v.requires_grad, v.grad_fn)


@torch.no_grad()
def double(x):
    return x * 2


print(double(z).requires_grad)

# %%
w = torch.ones(3, requires_grad=True)
m = w.detach()
n = w * 2
n.sum().backward()
print(w.grad, m.requires_grad, n.is_leaf, w.is_leaf)

# %%
out = n.detach().numpy()
print(out, w.data.numpy(), w.tolist(), w.sum().item(), float(w[0]))
