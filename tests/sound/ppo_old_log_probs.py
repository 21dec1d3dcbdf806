# sound: PPO; old log probabilities and values are collected under no_grad or detached

# %%
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class RolloutBuffer:
    def __init__(self):
        self.clear()

    def clear(self):
        self.actions, self.states, self.logprobs, self.rewards, self.values = [], [], [], [], []


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2), nn.Softmax(-1))
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def act(self, state):
        dist = Categorical(self.actor(state))
        action = dist.sample()
        return action.detach(), dist.log_prob(action).detach(), self.critic(state).detach()

    def evaluate(self, state, action):
        dist = Categorical(self.actor(state))
        return dist.log_prob(action), self.critic(state), dist.entropy()


class PPO:
    def __init__(self):
        self.buffer = RolloutBuffer()
        self.policy = ActorCritic()
        self.policy_old = ActorCritic()
        self.policy_old.load_state_dict(self.policy.state_dict())
        self.optimizer = torch.optim.Adam(
            [
                {"params": self.policy.actor.parameters(), "lr": 3e-4},
                {"params": self.policy.critic.parameters(), "lr": 1e-3},
            ]
        )

    def select_action(self, state):
        with torch.no_grad():
            action, logprob, value = self.policy_old.act(state)
        self.buffer.states.append(state)
        self.buffer.actions.append(action)
        self.buffer.logprobs.append(logprob)
        self.buffer.values.append(value)
        return action.item()

    def update(self):
        rewards = torch.tensor(self.buffer.rewards)
        old_states = torch.stack(self.buffer.states).detach()
        old_actions = torch.stack(self.buffer.actions).detach()
        old_logprobs = torch.stack(self.buffer.logprobs).detach()
        advantages = rewards.detach() - torch.cat(self.buffer.values).detach()
        for _ in range(3):
            logprobs, values, entropy = self.policy.evaluate(old_states, old_actions)
            ratios = torch.exp(logprobs - old_logprobs.detach())
            surr1 = ratios * advantages
            surr2 = torch.clamp(ratios, 0.8, 1.2) * advantages
            value_loss = nn.functional.mse_loss(values.squeeze(1), rewards)
            loss = -torch.min(surr1, surr2) + 0.5 * value_loss - 0.01 * entropy
            self.optimizer.zero_grad()
            loss.mean().backward()
            self.optimizer.step()
        self.policy_old.load_state_dict(self.policy.state_dict())
        self.buffer.clear()


# %%
ppo = PPO()
for episode in range(2):
    for _ in range(10):
        a = ppo.select_action(torch.randn(4))
        ppo.buffer.rewards.append(float(a))
    ppo.update()

# %%
# the same by hand, without the old network
net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
obs = torch.randn(16, 4)
dist = Categorical(net.actor(obs))
act = dist.sample()
old_logp = dist.log_prob(act).data
adv = torch.randn(16)
for _ in range(3):
    logp = Categorical(net.actor(obs)).log_prob(act)
    ratio = (logp - old_logp).exp()
    pi_loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    kl = (old_logp - logp).mean().item()
    v_loss = net.critic(obs).squeeze(1).sub(adv).square().mean()
    opt.zero_grad()
    (pi_loss + v_loss).backward()
    opt.step()
    if kl > 1.5:
        break

# %%
for episode in range(2):
    for _ in range(10):
        ppo.buffer.rewards.append(float(ppo.select_action(torch.randn(4))))
    ppo.update()
