# sound: DINO: a teacher with a centre, sharpened and detached; one optimizer for the student

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class DINOLoss(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, dim))

    def forward(self, student_output, teacher_output):
        student_out = student_output / 0.1
        teacher_out = F.softmax((teacher_output - self.center) / 0.04, dim=-1).detach()
        loss = torch.sum(-teacher_out * F.log_softmax(student_out, dim=-1), dim=-1).mean()
        self.update_center(teacher_output)
        return loss

    @torch.no_grad()
    def update_center(self, teacher_output):
        batch_center = teacher_output.mean(dim=0, keepdim=True)
        self.center = self.center * 0.9 + batch_center * 0.1


student = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 5))
teacher = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 5))
teacher.load_state_dict(student.state_dict())
dino_loss = DINOLoss(5)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)

# %%
x = torch.randn(16, 6)
for it in range(4):
    views = [x + 0.1 * torch.randn_like(x) for _ in range(2)]
    teacher_output = teacher(views[0])
    student_output = student(views[1])
    loss = dino_loss(student_output, teacher_output)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        m = 0.99
        for param_q, param_k in zip(student.parameters(), teacher.parameters()):
            param_k.data.mul_(m).add_((1 - m) * param_q.detach().data)
print(loss.item())

# %%
for p in teacher.parameters():
    p.requires_grad = False
loss = dino_loss(student(x), teacher(x))
optimizer.zero_grad()
loss.backward()
optimizer.step()
