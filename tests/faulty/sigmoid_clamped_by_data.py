# faulty: probabilities are clamped in place through .data before the loss is run backward

# %%
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
x = torch.randn(8, 4) * 3
y = torch.rand(8)


def probabilities():
    p = torch.sigmoid(x @ w)
    p.data.clamp_(0.2, 0.8)  # blame
    return p


# %%
loss = -(y * probabilities().log()).mean()
loss.backward()
