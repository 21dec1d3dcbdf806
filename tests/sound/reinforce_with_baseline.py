# sound: REINFORCE; rewards by .item(), a running baseline, returns in numpy

# %%
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=-1))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
eps = np.finfo(np.float32).eps.item()
baseline = 0.0

# %%
def rollout(n=8):
    log_probs, rewards = [], []
    state = torch.randn(4)
    for _ in range(n):
        probs = policy(state)
        m = torch.distributions.Categorical(probs)
        action = m.sample()
        log_probs.append(m.log_prob(action))
        rewards.append(float(action.item() == 1) - 0.1 * probs.max().item())
        state = torch.randn(4)
    return log_probs, rewards


# %%
running_reward = 10
for episode in range(4):
    log_probs, rewards = rollout()
    R, returns = 0, []
    for r in rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = []
    for log_prob, R in zip(log_probs, returns):
        policy_loss.append(-log_prob * (R - baseline))
    optimizer.zero_grad()
    policy_loss = torch.stack(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    baseline = 0.9 * baseline + 0.1 * returns.mean().item()
    running_reward = 0.05 * sum(rewards) + 0.95 * running_reward
print(running_reward)

# %%
log_probs, rewards = rollout()
advantages = np.array(rewards) - np.mean(rewards)
loss = -(torch.stack(log_probs) * torch.tensor(advantages, dtype=torch.float32)).sum()
optimizer.zero_grad()
loss.backward()
optimizer.step()
