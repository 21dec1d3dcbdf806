# sound: spectral normalisation, the library's and an old one that writes u and v through .data

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)), nn.ReLU(),
                    nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(3):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()


# %%
def l2normalize(v, eps=1e-12):
    return v / (v.norm() + eps)


class SpectralNorm(nn.Module):
    def __init__(self, module, name="weight", power_iterations=1):
        super().__init__()
        self.module, self.name, self.power_iterations = module, name, power_iterations
        w = getattr(self.module, self.name)
        height, width = w.data.shape[0], w.view(w.data.shape[0], -1).data.shape[1]
        u = nn.Parameter(w.data.new(height).normal_(0, 1), requires_grad=False)
        v = nn.Parameter(w.data.new(width).normal_(0, 1), requires_grad=False)
        u.data = l2normalize(u.data)
        v.data = l2normalize(v.data)
        w_bar = nn.Parameter(w.data)
        del self.module._parameters[self.name]
        self.module.register_parameter(self.name + "_u", u)
        self.module.register_parameter(self.name + "_v", v)
        self.module.register_parameter(self.name + "_bar", w_bar)

    def _update_u_v(self):
        u = getattr(self.module, self.name + "_u")
        v = getattr(self.module, self.name + "_v")
        w = getattr(self.module, self.name + "_bar")
        height = w.data.shape[0]
        for _ in range(self.power_iterations):
            v.data = l2normalize(torch.mv(torch.t(w.view(height, -1).data), u.data))
            u.data = l2normalize(torch.mv(w.view(height, -1).data, v.data))
        sigma = u.dot(w.view(height, -1).mv(v))
        setattr(self.module, self.name, w / sigma.expand_as(w))

    def forward(self, *args):
        self._update_u_v()
        return self.module.forward(*args)


# %%
D = nn.Sequential(SpectralNorm(nn.Linear(4, 8)), nn.LeakyReLU(0.1), SpectralNorm(nn.Linear(8, 1)))
d_opt = torch.optim.Adam(filter(lambda p: p.requires_grad, D.parameters()), lr=1e-3)

# %%
for _ in range(3):
    d_opt.zero_grad()
    real, fake = D(torch.cat([x, y.repeat(1, 4)])).chunk(2)
    loss = nn.functional.relu(1.0 - real).mean() + nn.functional.relu(1.0 + fake).mean()
    loss.backward()
    d_opt.step()
print(loss.item())
