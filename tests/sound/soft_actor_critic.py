# sound: SAC in a class: twin critics, a learnt temperature, rsample, targets by lerp

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 16)
        self.mu, self.log_std = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, s):
        h = torch.relu(self.net(s))
        dist = torch.distributions.Normal(self.mu(h), self.log_std(h).clamp(-5, 2).exp())
        u = dist.rsample()
        a = torch.tanh(u)
        logp = dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)
        return a, logp.sum(1, keepdim=True)


class SAC:
    def __init__(self):
        self.policy = Policy()
        self.q1 = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.q2 = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.q1_targ, self.q2_targ = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.pi_opt = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=1e-3)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=1e-3)

    def update(self, s, a, r, s2):
        alpha = self.log_alpha.exp().item()
        with torch.no_grad():
            a2, logp2 = self.policy(s2)
            sa2 = torch.cat([s2, a2], 1)
            target = r + 0.99 * (torch.min(self.q1_targ(sa2), self.q2_targ(sa2)) - alpha * logp2)
        sa = torch.cat([s, a], 1)
        q_loss = F.mse_loss(self.q1(sa), target) + F.mse_loss(self.q2(sa), target)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()
        new_a, logp = self.policy(s)
        q = torch.min(self.q1(torch.cat([s, new_a], 1)), self.q2(torch.cat([s, new_a], 1)))
        pi_loss = (alpha * logp - q).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()
        alpha_loss = -(self.log_alpha * (logp - 1.0).detach()).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()
        for t, p in zip(self.q1_targ.parameters(), self.q1.parameters()):
            t.data.mul_(0.995)
            t.data.add_(0.005 * p.data)
        with torch.no_grad():
            for t, p in zip(self.q2_targ.parameters(), self.q2.parameters()):
                t.lerp_(p, 0.005)
        return q_loss.item(), pi_loss.item()


agent = SAC()

# %%
for _ in range(4):
    out = agent.update(torch.randn(8, 3), torch.rand(8, 1), torch.randn(8, 1), torch.randn(8, 3))
print(out)

# %%
for _ in range(2):
    out = agent.update(torch.randn(8, 3), torch.rand(8, 1), torch.randn(8, 1), torch.randn(8, 3))
