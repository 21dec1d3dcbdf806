# sound: the input is optimised; targets are detached features; the net is never trained

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
cnn = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
content_img, style_img = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


# %%
class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


# %%
content_loss = ContentLoss(cnn(content_img))
style_loss = StyleLoss(cnn(style_img))
model = nn.Sequential(cnn, content_loss, style_loss)
input_img = content_img.clone()
input_img.requires_grad_(True)
model.eval()
model.requires_grad_(False)
optimizer = torch.optim.LBFGS([input_img])

# %%
run = [0]
while run[0] <= 20:

    def closure():
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        model(input_img)
        loss = 1e3 * style_loss.loss + content_loss.loss
        loss.backward()
        run[0] += 1
        return loss

    optimizer.step(closure)
with torch.no_grad():
    input_img.clamp_(0, 1)

# %%
# older: data clamped through .data, a net that still requires grad
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
img = nn.Parameter(content_img.data.clone())
target = net(style_img).detach()
opt = torch.optim.Adam([img], lr=0.05)
for _ in range(4):
    img.data.clamp_(0, 1)
    opt.zero_grad()
    loss = F.mse_loss(net(img), target)
    loss.backward()
    opt.step()
print(loss.item())
