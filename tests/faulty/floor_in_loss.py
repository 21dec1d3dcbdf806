# faulty: a quantised gain has a gradient of zeros

# %%
import torch

gain = torch.tensor(2.3, requires_grad=True)
shift = torch.tensor(0.1, requires_grad=True)


def quantise(v):
    return torch.floor(v * 8) / 8  # blame


# %%
loss = (quantise(gain) + shift - 1) ** 2
loss.backward()
