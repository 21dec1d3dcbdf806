# sound: one function does zero_grad, backward and step for whatever it is given

# %%
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Linear(5, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def take_step(loss, opt, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(opt.param_groups[0]["params"], clip)
    opt.step()


# %%
for i in range(4):
    s, a, r = torch.randn(8, 3), torch.rand(8, 2), torch.randn(8, 1)
    take_step((critic(torch.cat([s, a], 1)) - r).pow(2).mean(), critic_opt)
    take_step(-critic(torch.cat([s, actor(s)], 1)).mean(), actor_opt, clip=0.5)

# %%
for i in range(3):
    s = torch.randn(8, 3)
    take_step(-critic(torch.cat([s, actor(s)], 1)).mean(), actor_opt)

# %%
for i in range(3):
    s, a, r = torch.randn(8, 3), torch.rand(8, 2), torch.randn(8, 1)
    take_step((critic(torch.cat([s, a], 1)) - r).pow(2).mean(), critic_opt)


# %%
class Learner:
    def __init__(self):
        self.g, self.d = nn.Linear(2, 3), nn.Linear(3, 1)
        self.opts = {
            "g": torch.optim.Adam(self.g.parameters()),
            "d": torch.optim.Adam(self.d.parameters()),
        }

    def update(self, which, loss):
        self.opts[which].zero_grad()
        loss.backward()
        self.opts[which].step()

    def step(self):
        z, real = torch.randn(4, 2), torch.randn(4, 3)
        self.update("d", self.d(self.g(z).detach()).mean() - self.d(real).mean())
        self.update("g", -self.d(self.g(z)).mean())


learner = Learner()
for _ in range(3):
    learner.step()

# %%
for _ in range(3):
    learner.step()
