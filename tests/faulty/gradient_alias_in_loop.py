# faulty: the gradient of the step before is the gradient itself

# %%
import torch

torch.manual_seed(0)
w = torch.ones(3, requires_grad=True)
(w * w).sum().backward()
prev = w.grad

# %%
for _ in range(3):
    w.grad.zero_()
    (w * w * w).sum().backward()
    change = (w.grad - prev).norm()
    with torch.no_grad():
        w -= 0.1 * w.grad
    prev = w.grad  # blame
