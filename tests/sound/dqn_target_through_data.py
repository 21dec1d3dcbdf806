# sound: DQN of the Variable era: .data for the target and for the greedy action, double DQN

# %%
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)


class DQN(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, 16), nn.ReLU(), nn.Linear(16, n_out))
        self.n_out = n_out

    def forward(self, x):
        return self.layers(x)

    def act(self, state, epsilon):
        if rng.random() > epsilon:
            q_value = self.forward(torch.FloatTensor(state).unsqueeze(0))
            return q_value.max(1)[1].data[0].item()
        return int(rng.integers(self.n_out))


current_model, target_model = DQN(3, 2), DQN(3, 2)
optimizer = torch.optim.Adam(current_model.parameters())


def update_target(current, target):
    target.load_state_dict(current.state_dict())


update_target(current_model, target_model)

# %%
def compute_td_loss(state, action, reward, next_state, gamma=0.99):
    q_values = current_model(state)
    next_q_values = current_model(next_state)
    next_q_state_values = target_model(next_state)
    q_value = q_values.gather(1, action.unsqueeze(1)).squeeze(1)
    next_q_value = next_q_state_values.gather(1, torch.max(next_q_values, 1)[1].unsqueeze(1))
    expected_q_value = reward + gamma * next_q_value.squeeze(1)
    loss = (q_value - expected_q_value.data).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


# %%
losses, all_rewards, episode_reward = [], [], 0
state = rng.normal(size=3)
for frame in range(20):
    action = current_model.act(state, 0.3)
    next_state = rng.normal(size=3)
    reward = float(action)
    batch = torch.randn(8, 3), torch.randint(0, 2, (8,)), torch.randn(8), torch.randn(8, 3)
    loss = compute_td_loss(*batch)
    losses.append(loss.data.item())
    episode_reward += reward
    state = next_state
    if frame % 10 == 0:
        update_target(current_model, target_model)
        all_rewards.append(episode_reward)
        episode_reward = 0

# %%
q = current_model(torch.randn(5, 3))
next_q = target_model(torch.randn(5, 3)).data.max(1)[0]
loss = nn.functional.mse_loss(q.max(1)[0], next_q)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(np.mean(losses))
