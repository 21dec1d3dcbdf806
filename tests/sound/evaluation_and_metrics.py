# sound: evaluation under no_grad and inference_mode; metrics by argmax, item, numpy, lists

# %%
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
train = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(4)]
valid = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(2)]

# %%
def evaluate(loader):
    net.eval()
    losses, hits, probs = [], 0, []
    with torch.inference_mode():
        for x, y in loader:
            out = net(x)
            losses.append(nn.functional.cross_entropy(out, y).item())
            hits += (out.argmax(1) == y).sum().item()
            probs.append(out.softmax(1).numpy())
    net.train()
    return np.mean(losses), hits / 16, np.concatenate(probs)


train_losses, valid_losses, all_preds = [], [], []
for epoch in range(3):
    running, correct, seen = 0.0, 0, 0
    for x, y in train:
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.detach() * len(y)
        correct += (out.argmax(dim=1) == y).float().sum().item()
        all_preds.extend(out.argmax(dim=1).tolist())
        seen += len(y)
    train_losses.append(running / seen)
    valid_loss, acc, _ = evaluate(valid)
    valid_losses.append(valid_loss)
    print(f"{epoch}: {running / seen:.3f} {correct / seen:.2f} {valid_loss:.3f} {acc:.2f}")

# %%
net.eval()
with torch.no_grad():
    cm = torch.zeros(3, 3, dtype=torch.long)
    for x, y in valid:
        for t, p in zip(y, net(x).argmax(1)):
            cm[t, p] += 1
print(cm)

# %%
x, y = valid[0]
logits = net(x)
print(logits.data.numpy().argmax(axis=1), logits.detach().numpy().mean(), logits.max().item())
val_loss = nn.functional.cross_entropy(logits, y)
print("val loss", val_loss.item(), float(val_loss), f"{val_loss:.3f}")


# %%
@torch.no_grad()
def accuracy(loader):
    return sum((net(x).argmax(1) == y).float().mean() for x, y in loader) / len(loader)


net.train()
for x, y in train:
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
print(accuracy(valid))
