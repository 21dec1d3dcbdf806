# sound: an MNIST tutorial of 2017: loss.data.item(), torch.max(out.data, 1), init through .data

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.autograd import Variable

torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(20, 30)
        self.fc2 = nn.Linear(30, 4)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                m.weight.data.normal_(0, 0.1)
                m.bias.data.zero_()

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)

# %%
batches = [(torch.randn(16, 20), torch.randint(0, 4, (16,))) for _ in range(6)]


def train(epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(batches):
        data, target = Variable(data), Variable(target)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % 3 == 0:
            print("Epoch {} [{}]\tLoss: {:.6f}".format(epoch, batch_idx, loss.data.item()))


def test():
    model.eval()
    test_loss, correct = 0, 0
    for data, target in batches:
        output = model(Variable(data))
        test_loss += F.nll_loss(output, target, reduction="sum").data.item()
        _, predicted = torch.max(output.data, 1)
        correct += (predicted == target).sum()
        pred = output.data.max(1, keepdim=True)[1]
        correct += pred.eq(target.data.view_as(pred)).sum().item()
    print(test_loss / 96, correct)


# %%
for epoch in range(1, 3):
    train(epoch)
    test()

# %%
train(3)

# %%
test()
print(model.fc1.weight.data.norm())
