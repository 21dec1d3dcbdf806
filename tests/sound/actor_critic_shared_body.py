# sound: actor-critic on one body; advantage.detach() as weight of the policy gradient

# %%
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = torch.relu(self.affine(x))
        return torch.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)

# %%
def select_action(state):
    probs, value = model(state)
    m = Categorical(probs)
    action = m.sample()
    model.saved_actions.append((m.log_prob(action), value))
    return action.item()


def finish_episode(gamma=0.9):
    R, returns, policy_losses, value_losses = 0, [], [], []
    for r in model.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(nn.functional.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]


# %%
for episode in range(3):
    state = torch.randn(4)
    for t in range(10):
        action = select_action(state)
        state = torch.randn(4)
        model.rewards.append(1.0 if action else 0.5)
    finish_episode()

# %%
log_probs, values, rewards, masks, entropy = [], [], [], [], 0
state = torch.randn(1, 4)
for _ in range(5):
    probs, value = model(state)
    dist = Categorical(probs)
    action = dist.sample()
    log_probs.append(dist.log_prob(action))
    entropy += dist.entropy().mean()
    values.append(value)
    rewards.append(torch.tensor([float(action.item())]))
    state = torch.randn(1, 4)
returns, R = [], model(state)[1].detach()
for r in reversed(rewards):
    R = r + 0.99 * R
    returns.insert(0, R)
log_probs, returns, values = torch.cat(log_probs), torch.cat(returns).detach(), torch.cat(values)
advantage = returns - values
actor_loss = -(log_probs * advantage.detach()).mean()
critic_loss = advantage.pow(2).mean()
loss = actor_loss + 0.5 * critic_loss - 0.001 * entropy
optimizer.zero_grad()
loss.backward()
optimizer.step()
