# sound: knowledge distillation, the teacher frozen in three ways and once not at all

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
student = nn.Linear(6, 4)
x, y = torch.randn(20, 6), torch.randint(0, 4, (20,))
opt_t = torch.optim.Adam(teacher.parameters())
for _ in range(3):
    opt_t.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    opt_t.step()

# %%
opt = torch.optim.Adam(student.parameters())
T, alpha = 3.0, 0.5


def kd_loss(s, t, y):
    soft = F.kl_div(F.log_softmax(s / T, 1), F.softmax(t / T, 1), reduction="batchmean") * T * T
    return alpha * soft + (1 - alpha) * F.cross_entropy(s, y)


# %%
teacher.eval()
for _ in range(3):
    with torch.no_grad():
        t = teacher(x)
    loss = kd_loss(student(x), t, y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for _ in range(3):
    loss = kd_loss(student(x), teacher(x).detach(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for _ in range(3):
    loss = kd_loss(student(x), teacher(x).data, y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
for p in teacher.parameters():
    p.requires_grad = False
for _ in range(3):
    loss = kd_loss(student(x), teacher(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# %%
# soft targets kept from before as numpy
targets = teacher(x).softmax(1).numpy()
loss = F.mse_loss(student(x).softmax(1), torch.from_numpy(targets))
opt.zero_grad()
loss.backward()
opt.step()
print(loss.item())
