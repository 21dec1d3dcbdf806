# sound: clients trained on copies, the server averages through .data and state dicts

# %%
import copy

import torch
from torch import nn

torch.manual_seed(0)
server = nn.Linear(3, 1)
clients = [(torch.randn(10, 3), torch.randn(10, 1)) for _ in range(3)]


def local_update(model, data, epochs=2):
    model = copy.deepcopy(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(data[0]), data[1])
        loss.backward()
        opt.step()
    return model, loss.item()


# %%
for round_ in range(2):
    models, losses = zip(*[local_update(server, c) for c in clients])
    for p, *ps in zip(server.parameters(), *[m.parameters() for m in models]):
        p.data = torch.stack([q.data for q in ps]).mean(0)
    print(losses)

# %%
states = [local_update(server, c)[0].state_dict() for c in clients]
server.load_state_dict({k: sum(s[k] for s in states) / len(states) for k in states[0]})

# %%
# gradients summed up over workers
opt = torch.optim.SGD(server.parameters(), lr=0.1)
workers = [copy.deepcopy(server) for _ in clients]
for step in range(3):
    for w, (x, y) in zip(workers, clients):
        w.load_state_dict(server.state_dict())
        w.zero_grad()
        nn.functional.mse_loss(w(x), y).backward()
    for p, *ps in zip(server.parameters(), *[w.parameters() for w in workers]):
        p.grad = sum(q.grad for q in ps) / len(ps)
    opt.step()
