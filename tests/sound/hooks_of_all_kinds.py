# sound: hooks that log, extract features and activations, scale gradients, clip leaves in place

# %%
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
activation, gradients, norms = {}, {}, []


def get_activation(name):
    def hook(model, input, output):
        activation[name] = output.detach()

    return hook


def get_gradient(name):
    def hook(module, grad_input, grad_output):
        gradients[name] = grad_output[0].detach().clone()

    return hook


# %%
handles = [net[1].register_forward_hook(get_activation("relu"))]
handles.append(net[1].register_full_backward_hook(get_gradient("relu")))
opt.zero_grad()
nn.functional.cross_entropy(net(x), y).backward()
opt.step()
print(activation["relu"].shape, gradients["relu"].shape)
for h in handles:
    h.remove()

# %%
hidden = net[0](x)
hidden.register_hook(lambda g: norms.append(g.norm().item()))
hidden.register_hook(lambda g: g * 0.5)
hidden.retain_grad()
opt.zero_grad()
nn.functional.cross_entropy(net[2](torch.relu(hidden)), y).backward()
print(hidden.grad.norm(), norms)


# %%
def clip_in_place(g):
    g.clamp_(-0.1, 0.1)


hs = [p.register_hook(clip_in_place) for p in net.parameters()]
net[0].weight.register_hook(lambda g: g.mul_(0.9))
for _ in range(2):
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()

# %%
# Grad-CAM
feats, grads = [], []
conv = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
head = nn.Linear(4, 2)
img = torch.rand(1, 1, 6, 6)
a = conv(img)
a.register_hook(lambda g: grads.append(g))
score = head(a.mean((2, 3)))[0, 1]
conv.zero_grad()
score.backward()
weights = grads[0].mean((2, 3), keepdim=True)
cam = torch.relu((weights * a).sum(1)).detach().numpy()
print(cam.max())

# %%
saliency_in = torch.rand(1, 1, 6, 6, requires_grad=True)
head(conv(saliency_in).mean((2, 3)))[0].max().backward()
saliency = saliency_in.grad.data.abs().max(dim=1)[0]
print(saliency.shape)
