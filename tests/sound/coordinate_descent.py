# sound: two parameters in turn, the other one taken as a number; gradients wait for later cells

# %%
import math

import torch

torch.manual_seed(0)
data = 3 + 2 * torch.randn(100)
mu = torch.zeros(1, requires_grad=True)
log_sigma = torch.zeros(1, requires_grad=True)

# %%
sigma = math.exp(log_sigma.item())
nll = ((data - mu) ** 2 / (2 * sigma**2)).mean() + math.log(sigma)
nll.backward()
with torch.no_grad():
    mu -= 0.1 * mu.grad
    mu.grad = None

# %%
m = mu.item()
nll = ((data - m) ** 2 / (2 * torch.exp(2 * log_sigma))).mean() + log_sigma.sum()
nll.backward()
with torch.no_grad():
    log_sigma -= 0.1 * log_sigma.grad
    log_sigma.grad = None

# %%
U = torch.randn(6, 2, requires_grad=True)
V = torch.randn(5, 2, requires_grad=True)
R = torch.randn(6, 5)
for sweep in range(2):
    loss = (R - U @ V.data.t()).pow(2).mean()
    loss.backward()
    U.data -= 0.1 * U.grad
    U.grad = None
    loss = (R - U.data @ V.t()).pow(2).mean()
    loss.backward()
    V.data -= 0.1 * V.grad
    V.grad = None
print(loss.item())

# %%
loss = (R - U @ V.data.t()).pow(2).mean()
loss.backward()
