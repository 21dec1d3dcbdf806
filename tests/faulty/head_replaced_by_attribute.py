# faulty: the classifier is replaced after the optimizer was made

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(4, 5), nn.Linear(5, 10)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


model = Net()
optimizer = torch.optim.Adam(model.parameters())

# %%
model.fc = nn.Linear(5, 2)  # blame

# %%
for _ in range(3):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,))).backward()
    optimizer.step()
