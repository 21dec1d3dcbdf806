# sound: DQN with a target network, loaded by load_state_dict and evaluated under no_grad

# %%
import copy
import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
policy_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net.load_state_dict(policy_net.state_dict())
target_net.eval()
optimizer = torch.optim.RMSprop(policy_net.parameters())
memory = deque(maxlen=200)

# %%
def select_action(state, eps=0.2):
    if random.random() > eps:
        with torch.no_grad():
            return policy_net(state).max(1)[1].view(1, 1)
    return torch.tensor([[random.randrange(2)]], dtype=torch.long)


def optimize_model(batch_size=16, gamma=0.9):
    if len(memory) < batch_size:
        return None
    transitions = random.sample(memory, batch_size)
    states, actions, rewards, next_states = map(torch.cat, zip(*transitions))
    state_action_values = policy_net(states).gather(1, actions)
    next_values = target_net(next_states).max(1)[0].detach()
    expected = next_values * gamma + rewards
    loss = nn.functional.smooth_l1_loss(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    for param in policy_net.parameters():
        param.grad.data.clamp_(-1, 1)
    optimizer.step()
    return loss.item()


# %%
history = []
for episode in range(3):
    state = torch.randn(1, 4)
    for t in range(15):
        action = select_action(state)
        next_state = state + 0.1 * torch.randn(1, 4)
        reward = torch.tensor([1.0 if action.item() else -0.1])
        memory.append((state, action, reward, next_state))
        state = next_state
        loss = optimize_model()
        if loss is not None:
            history.append(loss)
    if episode % 2 == 0:
        target_net.load_state_dict(policy_net.state_dict())
print(sum(history) / len(history))

# %%
best = copy.deepcopy(policy_net)
optimize_model()
