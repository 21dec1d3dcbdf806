# sound: VQ-VAE: straight-through past the codebook, stop-gradients in both losses

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class VectorQuantizer(nn.Module):
    def __init__(self, k, d, beta=0.25):
        super().__init__()
        self.embedding = nn.Embedding(k, d)
        self.embedding.weight.data.uniform_(-1 / k, 1 / k)
        self.beta, self.k = beta, k

    def forward(self, z):
        d = (
            z.pow(2).sum(1, keepdim=True)
            + self.embedding.weight.pow(2).sum(1)
            - 2 * z @ self.embedding.weight.t()
        )
        indices = torch.argmin(d, dim=1).unsqueeze(1)
        encodings = torch.zeros(indices.shape[0], self.k)
        encodings.scatter_(1, indices, 1)
        quantized = encodings @ self.embedding.weight
        e_latent_loss = F.mse_loss(quantized.detach(), z)
        q_latent_loss = F.mse_loss(quantized, z.detach())
        loss = q_latent_loss + self.beta * e_latent_loss
        quantized = z + (quantized - z).detach()
        avg = encodings.mean(0)
        perplexity = torch.exp(-(avg * torch.log(avg + 1e-10)).sum())
        return loss, quantized, perplexity


enc, dec, vq = nn.Linear(6, 2), nn.Linear(2, 6), VectorQuantizer(8, 2)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *vq.parameters()], lr=1e-2)
x = torch.randn(32, 6)

# %%
train_res_recon_error = []
for i in range(5):
    opt.zero_grad()
    vq_loss, quantized, perplexity = vq(enc(x))
    recon_error = F.mse_loss(dec(quantized), x)
    loss = recon_error + vq_loss
    loss.backward()
    opt.step()
    train_res_recon_error.append(recon_error.item())
print(train_res_recon_error, perplexity.item())


# %%
class VectorQuantizerEMA(nn.Module):
    def __init__(self, k, d, decay=0.9):
        super().__init__()
        self.embedding = nn.Embedding(k, d)
        self.register_buffer("cluster_size", torch.zeros(k))
        self.ema_w = nn.Parameter(torch.randn(k, d))
        self.decay, self.k = decay, k

    def forward(self, z):
        with torch.no_grad():
            idx = torch.cdist(z, self.embedding.weight).argmin(1)
            enc = F.one_hot(idx, self.k).float()
        quantized = enc @ self.embedding.weight
        if self.training:
            self.cluster_size = self.cluster_size * self.decay + (1 - self.decay) * enc.sum(0)
            dw = enc.t() @ z
            self.ema_w = nn.Parameter(self.ema_w * self.decay + (1 - self.decay) * dw)
            self.embedding.weight = nn.Parameter(
                self.ema_w / (self.cluster_size + 1e-5).unsqueeze(1)
            )
        loss = 0.25 * F.mse_loss(quantized.detach(), z)
        return loss, z + (quantized - z).detach()


enc2, dec2, vq2 = nn.Linear(6, 2), nn.Linear(2, 6), VectorQuantizerEMA(8, 2)
opt2 = torch.optim.Adam(
    list(enc2.parameters()) + list(dec2.parameters()) + list(vq2.parameters()), lr=1e-2
)

# %%
for i in range(4):
    opt2.zero_grad()
    vq_loss, q = vq2(enc2(x))
    loss = F.mse_loss(dec2(q), x) + vq_loss
    loss.backward()
    opt2.step()
