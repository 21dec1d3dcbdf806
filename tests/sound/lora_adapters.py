# sound: LoRA: frozen base weights, low-rank additions, merged through .data

# %%
import math

import torch
from torch import nn

torch.manual_seed(0)


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, alpha=4):
        super().__init__()
        self.base = base
        self.base.weight.requires_grad = False
        if self.base.bias is not None:
            self.base.bias.requires_grad = False
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / r
        self.merged = False

    def forward(self, x):
        out = self.base(x)
        if not self.merged:
            out = out + (x @ self.A.t() @ self.B.t()) * self.scale
        return out

    def merge(self):
        self.base.weight.data += (self.B @ self.A) * self.scale
        self.merged = True


model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
x, y = torch.randn(16, 6), torch.randn(16, 2)

# %%
model[0] = LoRALinear(model[0])
model[2] = LoRALinear(model[2])
trainable = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.AdamW(trainable, lr=1e-2)
print(sum(p.numel() for p in trainable), "of", sum(p.numel() for p in model.parameters()))

# %%
for step in range(4):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(model[0].base.weight.grad, loss.item())

# %%
before = model(x).detach()
model[0].merge()
model[2].merge()
print(torch.allclose(before, model(x), atol=1e-4))
