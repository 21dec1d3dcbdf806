# sound: a recurrent language model of 2017; the state is carried on by tuple([each.data ...])

# %%
import torch
import torch.nn as nn

torch.manual_seed(0)


class CharRNN(nn.Module):
    def __init__(self, tokens, hidden=12, layers=2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.lstm = nn.LSTM(tokens, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, tokens)
        self.init_weights()

    def forward(self, x, hc):
        x, (h, c) = self.lstm(x, hc)
        x = self.fc(x.reshape(-1, self.hidden))
        return x, (h, c)

    def init_weights(self):
        self.fc.bias.data.fill_(0)
        self.fc.weight.data.uniform_(-1, 1)

    def init_hidden(self, n):
        weight = next(self.parameters()).data
        return (
            weight.new(self.layers, n, self.hidden).zero_(),
            weight.new(self.layers, n, self.hidden).zero_(),
        )


net = CharRNN(5)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
text = torch.randint(0, 5, (4, 41))

# %%
def batches(n):
    for i in range(0, 40, n):
        yield nn.functional.one_hot(text[:, i : i + n], 5).float(), text[:, i + 1 : i + n + 1]


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.data
    return tuple(repackage_hidden(v) for v in h)


# %%
net.train()
for e in range(2):
    h = net.init_hidden(4)
    for x, y in batches(10):
        h = tuple([each.data for each in h])
        net.zero_grad()
        output, h = net.forward(x, h)
        loss = criterion(output, y.reshape(40))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        opt.step()
    print("Epoch:", e, "Loss: {:.4f}".format(loss.item()))

# %%
h = net.init_hidden(4)
losses = []
for x, y in batches(8):
    h = repackage_hidden(h)
    opt.zero_grad()
    output, h = net(x, h)
    loss = criterion(output, y.reshape(-1))
    loss.backward()
    opt.step()
    losses.append(loss.data.item())
print(sum(losses) / len(losses))
