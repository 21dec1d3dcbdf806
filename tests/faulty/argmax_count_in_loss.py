# faulty: the number of predicted foreground pixels is a term of the loss

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
seg = nn.Conv2d(1, 2, 3, padding=1)
img, mask = torch.randn(1, 1, 6, 6), torch.randint(0, 2, (1, 6, 6))

# %%
logits = seg(img)
ce = F.cross_entropy(logits, mask)
area = torch.argmax(logits, dim=1).to(torch.float32).mean()  # blame
loss = ce + 0.5 * (area - 0.3).abs()
loss.backward()
