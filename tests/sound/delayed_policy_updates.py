# sound: TD3: the policy is updated every second step, so the first cells train critics alone

# %%
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class TD3:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.Tanh())
        self.actor_target = copy.deepcopy(self.actor)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.critic_target = copy.deepcopy(self.critic)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.total_it = 0

    def select_action(self, state):
        state = torch.FloatTensor(state.reshape(1, -1))
        return self.actor(state).cpu().data.numpy().flatten()

    def train(self, buffer):
        self.total_it += 1
        state, action, next_state, reward = buffer
        with torch.no_grad():
            noise = (torch.randn_like(action) * 0.2).clamp(-0.5, 0.5)
            next_action = (self.actor_target(next_state) + noise).clamp(-1, 1)
            target_Q = self.critic_target(torch.cat([next_state, next_action], 1))
            target_Q = reward + 0.99 * target_Q
        critic_loss = F.mse_loss(self.critic(torch.cat([state, action], 1)), target_Q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        if self.total_it % 2 == 0:
            actor_loss = -self.critic(torch.cat([state, self.actor(state)], 1)).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            for param, target_param in zip(
                self.critic.parameters(), self.critic_target.parameters()
            ):
                target_param.data.copy_(0.005 * param.data + 0.995 * target_param.data)


agent = TD3()

# %%
states = torch.randn(8, 3)
actions = torch.cat([torch.from_numpy(agent.select_action(s.numpy())) for s in states]).view(-1, 1)
buffer = states, actions, torch.randn(8, 3), torch.randn(8, 1)
agent.train(buffer)

# %%
agent.train(buffer)

# %%
for _ in range(7):
    agent.train(buffer)

# %%
agent.train(buffer)

# %%
# the same written out, the policy's turn has not come yet
actor, critic = nn.Linear(3, 1), nn.Linear(4, 1)
actor_opt = torch.optim.Adam(actor.parameters())
critic_opt = torch.optim.Adam(critic.parameters())
for i in range(3):
    s, r = torch.randn(8, 3), torch.randn(8, 1)
    a = actor(s).detach()
    loss = F.mse_loss(critic(torch.cat([s, a], 1)), r)
    critic_opt.zero_grad()
    loss.backward()
    critic_opt.step()
    if i % 5 == 4:
        actor_opt.zero_grad()
        (-critic(torch.cat([s, actor(s)], 1))).mean().backward()
        actor_opt.step()
