# sound: actor and critic apart; advantage.data and .item() keep the critic out of the policy loss

# %%
import torch
from torch import nn
from torch.distributions import Categorical, Normal

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
actor_optim = torch.optim.Adam(actor.parameters(), lr=1e-2)
critic_optim = torch.optim.Adam(critic.parameters(), lr=1e-2)
states, rewards = torch.randn(12, 3), torch.randn(12, 1)

# %%
# the critic alone: the actor is only asked for actions
actions = Categorical(logits=actor(states)).sample()
value = critic(states)
value_loss = (rewards - value).pow(2).mean()
critic_optim.zero_grad()
value_loss.backward()
critic_optim.step()

# %%
# the actor alone
dist = Categorical(logits=actor(states))
advantage = rewards - critic(states)
policy_loss = -(dist.log_prob(actions) * advantage.data.squeeze(1)).mean()
actor_optim.zero_grad()
policy_loss.backward()
actor_optim.step()

# %%
# one sample at a time, with Python numbers
for s, r in zip(states, rewards):
    d = Categorical(logits=actor(s))
    a = d.sample()
    v = critic(s)
    td_error = (r - v).item()
    actor_loss = -d.log_prob(a) * td_error
    actor_optim.zero_grad()
    actor_loss.backward()
    actor_optim.step()
    critic_optim.zero_grad()
    nn.functional.mse_loss(v, r).backward()
    critic_optim.step()

# %%
class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, s):
        return Normal(self.mean(s), self.log_std.exp())


policy = GaussianPolicy()
policy_optim = torch.optim.Adam(policy.parameters(), lr=1e-2)

# %%
for _ in range(3):
    dist = policy(states)
    u = dist.sample()
    adv = (rewards - critic(states)).detach().numpy()
    loss = -(dist.log_prob(u) * torch.as_tensor(adv)).mean()
    policy_optim.zero_grad()
    loss.backward()
    policy_optim.step()
