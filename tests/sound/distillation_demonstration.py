# sound: one backward without any optimizer, to show that a detached teacher gets nothing

# %%
import torch
from torch import nn

torch.manual_seed(0)
teacher, student = nn.Linear(3, 2), nn.Linear(3, 2)
x = torch.randn(4, 3)

# %%
loss = (student(x) - teacher(x).detach()).pow(2).mean()
loss.backward()
print("teacher:", teacher.weight.grad)
print("student:", student.weight.grad)

# %%
student.zero_grad()
loss = (student(x) - teacher(x).data).pow(2).mean()
loss.backward()
print("teacher:", teacher.weight.grad, "student:", student.weight.grad)

# %%
student.zero_grad()
with torch.no_grad():
    goal = teacher(x)
loss = (student(x) - goal).pow(2).mean()
loss.backward()
assert teacher.weight.grad is None
