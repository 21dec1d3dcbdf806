# sound: an embedding shared with the output layer, and an autoencoder with a transposed weight

# %%
import torch
from torch import nn

torch.manual_seed(0)


class LM(nn.Module):
    def __init__(self, n=12, d=8):
        super().__init__()
        self.emb = nn.Embedding(n, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, n)
        self.out.weight = self.emb.weight
        self.emb.weight.data.uniform_(-0.1, 0.1)
        self.out.bias.data.zero_()

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


lm = LM()
opt = torch.optim.SGD(lm.parameters(), lr=0.5)
tokens = torch.randint(0, 12, (4, 11))

# %%
for _ in range(3):
    logits = lm(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 12), tokens[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(lm.out.weight is lm.emb.weight, loss.item())

# %%
w = nn.Parameter(torch.randn(3, 6) * 0.1)
b1, b2 = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(6))
ae_opt = torch.optim.Adam([w, b1, b2], lr=0.05)
x = torch.randn(16, 6)
for _ in range(3):
    recon = torch.tanh(x @ w.t() + b1) @ w + b2
    loss = (recon - x).pow(2).mean()
    ae_opt.zero_grad()
    loss.backward()
    ae_opt.step()
