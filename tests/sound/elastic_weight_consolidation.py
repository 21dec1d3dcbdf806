# sound: EWC: Fisher information from squared gradients, old weights by .data, two tasks

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
tasks = [(torch.randn(20, 4), torch.randint(0, 2, (20,))) for _ in range(2)]

# %%
class EWC:
    def __init__(self, model, x, y):
        self.model = model
        self.params = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._means = {n: p.data.clone() for n, p in copy.deepcopy(self.params).items()}
        self._precision = self._diag_fisher(x, y)

    def _diag_fisher(self, x, y):
        precision = {n: torch.zeros_like(p.data) for n, p in self.params.items()}
        self.model.eval()
        for i in range(len(x)):
            self.model.zero_grad()
            output = self.model(x[i : i + 1]).view(1, -1)
            label = output.max(1)[1].view(-1)
            F.nll_loss(F.log_softmax(output, dim=1), label).backward()
            for n, p in self.model.named_parameters():
                precision[n].data += p.grad.data**2 / len(x)
        return precision

    def penalty(self, model):
        loss = 0
        for n, p in model.named_parameters():
            loss += (self._precision[n] * (p - self._means[n]) ** 2).sum()
        return loss


# %%
x, y = tasks[0]
for _ in range(3):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
ewc = EWC(net, x, y)

# %%
x, y = tasks[1]
net.train()
for _ in range(3):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y) + 10 * ewc.penalty(net)
    loss.backward()
    opt.step()
print(loss.item())
