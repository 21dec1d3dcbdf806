# sound: FGSM as in the tutorial: input requires grad, its gradient by .grad.data

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
model.eval()
samples = [(torch.rand(1, 10), torch.randint(0, 3, (1,))) for _ in range(6)]


def fgsm_attack(image, epsilon, data_grad):
    sign_data_grad = data_grad.sign()
    perturbed_image = image + epsilon * sign_data_grad
    return torch.clamp(perturbed_image, 0, 1)


# %%
def test(model, samples, epsilon):
    correct, adv_examples = 0, []
    for data, target in samples:
        data.requires_grad = True
        output = model(data)
        init_pred = output.max(1, keepdim=True)[1]
        if init_pred.item() != target.item():
            continue
        loss = F.cross_entropy(output, target)
        model.zero_grad()
        loss.backward()
        data_grad = data.grad.data
        perturbed_data = fgsm_attack(data, epsilon, data_grad)
        output = model(perturbed_data)
        final_pred = output.max(1, keepdim=True)[1]
        if final_pred.item() == target.item():
            correct += 1
        adv_examples.append(perturbed_data.squeeze().detach().cpu().numpy())
    return correct / len(samples), adv_examples


# %%
for eps in [0, 0.1, 0.3]:
    acc, ex = test(model, [(d.clone().detach(), t) for d, t in samples], eps)
    print(f"Epsilon: {eps}\tTest Accuracy = {acc}")

# %%
# adversarial training
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.rand(12, 10), torch.randint(0, 3, (12,))
for _ in range(3):
    delta = torch.zeros_like(x, requires_grad=True)
    loss = F.cross_entropy(model(x + delta), y)
    loss.backward()
    delta.data = 0.1 * delta.grad.detach().sign()
    opt.zero_grad()
    F.cross_entropy(model(x + delta.detach()), y).backward()
    opt.step()
