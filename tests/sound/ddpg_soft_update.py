# sound: DDPG, actor and critic with their own optimizers, soft updates by .data.copy_

# %%
import copy

import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


critic = Critic()
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)

# %%
def soft_update(target, source, tau=0.005):
    for tp, p in zip(target.parameters(), source.parameters()):
        tp.data.copy_(tp.data * (1.0 - tau) + p.data * tau)


def update(s, a, r, s2):
    with torch.no_grad():
        y = r + 0.99 * critic_target(s2, actor_target(s2))
    critic_loss = nn.functional.mse_loss(critic(s, a), y)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_loss = -critic(s, actor(s)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    soft_update(actor_target, actor)
    soft_update(critic_target, critic)
    return critic_loss.item(), actor_loss.item()


# %%
for step in range(8):
    out = update(torch.randn(8, 3), torch.rand(8, 1), torch.randn(8, 1), torch.randn(8, 3))
print(out)

# %%
# written out in one cell, targets through detach
s, a, r, s2 = torch.randn(8, 3), torch.rand(8, 1), torch.randn(8, 1), torch.randn(8, 3)
for step in range(3):
    next_q = critic_target(s2, actor_target(s2).detach()).detach()
    target_q = r + 0.99 * next_q
    critic_loss = (critic(s, a) - target_q).pow(2).mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()

# %%
for step in range(3):
    policy_loss = -critic(s, actor(s)).mean()
    actor_opt.zero_grad()
    policy_loss.backward()
    actor_opt.step()
    for tp, p in zip(critic_target.parameters(), critic.parameters()):
        tp.data.mul_(0.995)
        tp.data.add_(0.005 * p.data)
