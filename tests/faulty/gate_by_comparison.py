# faulty: a gate is a comparison, so its threshold is never trained

# %%
import torch

w = torch.ones(1, requires_grad=True)
cut = torch.full((1,), 0.5, requires_grad=True)
opt = torch.optim.Adam([w, cut], lr=0.1)
x = torch.linspace(0, 1, 6)

# %%
for _ in range(2):
    gate = (x > cut).float()  # blame
    loss = ((x * w) * gate - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
