# sound: custom Functions, gradient reversal among them, and a double backward

# %%
import torch
from torch import nn
from torch.autograd import Function

torch.manual_seed(0)


class GradReverse(Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.lambd, None


class LegendrePolynomial3(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


# %%
P3 = LegendrePolynomial3.apply
x = torch.linspace(-1, 1, 50)
y = torch.sin(x)
a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
for t in range(5):
    y_pred = a + b * P3(c + d * x)
    loss = (y_pred - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        a -= 1e-3 * a.grad
        b -= 1e-3 * b.grad
        c -= 1e-3 * c.grad
        d -= 1e-3 * d.grad
        a.grad = None
        b.grad = None
        c.grad = None
        d.grad = None

# %%
feat, clf, dom = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 2)
opt = torch.optim.SGD([*feat.parameters(), *clf.parameters(), *dom.parameters()], lr=0.05)
xs, ys, xt = torch.randn(8, 4), torch.randint(0, 2, (8,)), torch.randn(8, 4) + 1
for i in range(3):
    p = i / 3
    lambd = 2.0 / (1.0 + torch.exp(torch.tensor(-10.0 * p)).item()) - 1
    hs, ht = feat(xs), feat(xt)
    cls = nn.functional.cross_entropy(clf(hs), ys)
    both = GradReverse.apply(torch.cat([hs, ht]), lambd)
    domain = torch.cat([torch.zeros(8), torch.ones(8)]).long()
    adv = nn.functional.cross_entropy(dom(both), domain)
    opt.zero_grad()
    (cls + adv).backward()
    opt.step()

# %%
z = torch.tensor(0.7, requires_grad=True)
(g,) = torch.autograd.grad(P3(z), z, create_graph=True)
g.backward()
print(z.grad)
