# sound: a module that keeps its state and detaches it itself

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 6, batch_first=True)
        self.head = nn.Linear(6, 1)
        self.state = None
        self.register_buffer("running", torch.zeros(1))

    def forward(self, x):
        if self.state is not None:
            self.state = tuple(s.detach() for s in self.state)
        y, self.state = self.lstm(x, self.state)
        with torch.no_grad():
            self.running.mul_(0.9).add_(0.1 * y.mean())
        return self.head(y[:, -1])

    def reset(self):
        self.state = None


model = Stateful()
opt = torch.optim.Adam(model.parameters())

# %%
class Trainer:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.history = []

    def fit(self, data, epochs=2):
        for _ in range(epochs):
            self.model.reset()
            for x, y in data:
                loss = nn.functional.mse_loss(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.history.append(loss.item())
        return self


data = [(torch.randn(3, 5, 2), torch.randn(3, 1)) for _ in range(4)]
trainer = Trainer(model, opt)

# %%
trainer.fit(data)
print(trainer.history[-1])

# %%
trainer.fit(data, epochs=1)
print(model.running.item())
