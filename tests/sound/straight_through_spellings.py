# sound: straight-through estimators, five ways to write them

# %%
import torch
from torch import nn

torch.manual_seed(0)
w = torch.randn(6, requires_grad=True)
x = torch.randn(8, 6)

# %%
hard = (w > 0).float()
ste = hard + w - w.detach()
(x * ste).sum(1).pow(2).mean().backward()
print(w.grad)

# %%
w.grad = None
q = w + (torch.round(w * 4) / 4 - w).detach()
(x @ q).pow(2).mean().backward()

# %%
w.grad = None
binary = torch.sign(w).detach() + torch.tanh(w) - torch.tanh(w).detach()
loss = (x @ binary).pow(2).mean()
loss.backward()


# %%
class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.sign()

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 1] = 0
        return grad_input


w.grad = None
(x @ Binarize.apply(w)).pow(2).mean().backward()

# %%
class BinaryLinear(nn.Linear):
    def forward(self, input):
        # weights of 2017: binarised through .data, the real ones kept aside
        if not hasattr(self.weight, "org"):
            self.weight.org = self.weight.data.clone()
        self.weight.data = self.weight.org.sign()
        return nn.functional.linear(input, self.weight, self.bias)


net = BinaryLinear(6, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        if hasattr(p, "org"):
            p.data.copy_(p.org)
    opt.step()
    for p in net.parameters():
        if hasattr(p, "org"):
            p.org.copy_(p.data.clamp_(-1, 1))

# %%
logits = torch.randn(4, 5, requires_grad=True)
soft = logits.softmax(-1)
index = soft.max(-1, keepdim=True)[1]
one_hot = torch.zeros_like(logits).scatter_(-1, index, 1.0)
sample = one_hot - soft.detach() + soft
(sample * torch.arange(5.0)).sum().backward()
print(logits.grad.norm())

# %%
logits.grad = None
probs = torch.sigmoid(logits)
bits = torch.bernoulli(probs)
bits = (bits - probs).detach() + probs
(bits.sum(1) - 2).pow(2).mean().backward()

# %%
logits.grad = None
hard = logits.argmax(dim=-1)
one_hot = torch.nn.functional.one_hot(hard, 5).float()
st = one_hot + (logits.softmax(-1) - logits.softmax(-1).data)
(st * torch.arange(5.0)).sum().backward()
