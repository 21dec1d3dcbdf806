"""What kind of use the source says, and what takes the value.

The forms are those of some eight hundred real notebooks, and of the cases of users. What a
use did in fact is seen at run time; here only what the source shows is asked.
"""

from __future__ import annotations

import ast
import textwrap

import pytest

from ipy_autogradwatch.instrument import instrument
from ipy_autogradwatch.model import SiteKind

READ, CARRY, UPDATE, ASSIGN = SiteKind.READ, SiteKind.CARRY, SiteKind.UPDATE, SiteKind.ASSIGN
DELETE = SiteKind.DELETE


def uses(source):
    """Return receiver, kind and consumer of each ``.data`` of *source*."""
    sites = instrument(ast.parse(textwrap.dedent(source)), source, cell=1)
    return [
        (site.receiver, site.kind, site.consumer)
        for site in sites
        if site.kind not in (SiteKind.BACKWARD, SiteKind.LEAF)
    ]


def kinds(source):
    return {receiver: kind for receiver, kind, _ in uses(source)}


# By purpose: every row of what notebooks do with it.
PURPOSES = {
    # An optimizer's step, its target and its right-hand side.
    "p.data += -lr * p.grad": {"p": UPDATE},
    "p.data -= lr * p.grad.data": {"p": UPDATE, "p.grad": READ},
    "p.data *= 0.5": {"p": UPDATE},
    "p.data.add_(-lr, p.grad.data)": {"p": UPDATE, "p.grad": READ},
    "p.data.add_(p.grad.data, alpha=-lr)": {"p": UPDATE, "p.grad": READ},
    "p.data.sub_(lr * p.grad.data)": {"p": UPDATE, "p.grad": READ},
    "p.data.addcdiv_(m.data, v.data.sqrt().add_(eps), value=-lr)": {
        "p": UPDATE,
        "m": READ,
        "v": UPDATE,
    },
    "w.data = w.data - lr * w.grad.data": {"w.grad": READ},
    "v.data = m * v.data + lr * p.grad.data": {"p.grad": READ},
    "p.data -= v.data": {"p": UPDATE, "v": READ},
    "p.data.clamp_(-0.01, 0.01)": {"p": UPDATE},
    "p.data.copy_(p.data.clamp(0, 1))": {"p": READ},
    # Optimizer state, norms, aliases.
    "state['m'] = p.grad.data": {"p.grad": CARRY},
    "grad = p.grad.data": {"p.grad": CARRY},
    "norm = p.grad.data.norm(2)": {"p.grad": CARRY},
    "total += p.grad.data.norm(2).item() ** 2": {"p.grad": READ},
    "print(p.grad.data.norm(2))": {"p.grad": READ},
    # Gradients reset and clipped.
    "x.grad.data.zero_()": {"x.grad": UPDATE},
    "p.grad.data.mul_(c)": {"p.grad": UPDATE},
    "p.grad.data *= theta / norm": {"p.grad": UPDATE},
    # Initialization.
    "m.weight.data.normal_(0.0, 0.02)": {"m.weight": UPDATE},
    "m.bias.data.fill_(0)": {"m.bias": UPDATE},
    "m.weight.data.uniform_(-y, y)": {"m.weight": UPDATE},
    "nn.init.normal_(m.weight.data, 0.0, 0.02)": {"m.weight": UPDATE},
    "torch.nn.init.xavier_uniform_(m.weight.data)": {"m.weight": UPDATE},
    "init.constant(m.bias.data, 0)": {"m.bias": UPDATE},
    "nn.init.normal_(tensor=m.weight.data)": {"m.weight": UPDATE},
    "xavier_uniform_(m.weight.data)": {"m.weight": UPDATE},
    "net.weight.data.normal_().mul_(0.1)": {"net.weight": UPDATE},
    # Elements.
    "w.data[0] = 1": {"w": UPDATE},
    "w.data[0, :2] += 1": {"w": UPDATE},
    "w.data[i][j] = 1": {"w": UPDATE},
    "w.data.view(-1)[0] = 1": {"w": UPDATE},
    "w.data.T[0].fill_(1)": {"w": UPDATE},
    "d.data[i] = d.data[i] * m": {"d": READ},
    "w.data[mask.data] = 0": {"w": UPDATE, "mask": READ},
    # Whole assignment.
    "w.data = torch.zeros(2)": {"w": ASSIGN},
    "tp.data = p.data": {"tp": ASSIGN, "p": READ},
    "w.data = w.data[keep]": {"w": READ},
    "w.data = torch.where(m, w.data, z)": {"w": READ},
    "a.data, b.data = c.data, d.data": {"a": ASSIGN, "b": ASSIGN, "c": READ, "d": READ},
    "a.data = b.data = c.data": {"a": ASSIGN, "b": ASSIGN, "c": READ},
    "w.data: T = y.data": {"w": ASSIGN, "y": READ},
    # Target networks.
    "t.data.copy_(t.data * (1.0 - tau) + p.data * tau)": {"p": READ},
    "t.data.copy_(p.data)": {"t": UPDATE, "p": READ},
    "torch.add(a.data, b.data, out=w.data)": {"a": READ, "b": READ, "w": UPDATE},
    "torch.mul(w.data, 0.9, out=w.data)": {"w": UPDATE},
    # Predictions.
    "_, predicted = torch.max(outputs.data, 1)": {"outputs": READ},
    "_, p = out.data.max(1)": {"out": READ},
    "_, p = out.data.topk(5, 1)": {"out": READ},
    "pred = out.data.max(1, keepdim=True)[1]": {"out": READ},
    "pred = torch.max(out.data, 1)[1].view(-1)": {"out": READ},
    "pred = out.data.argmax(dim=1)": {"out": READ},
    "pred = out.data.topk(5).indices": {"out": READ},
    "values, indices = torch.max(out.data, 1)": {"out": CARRY},
    "best = torch.max(out.data, 1)[0]": {"out": CARRY},
    # Comparisons.
    "correct += pred.eq(target.data.view_as(pred)).sum()": {"target": READ},
    "correct += (pred == y.data).sum()": {"y": READ},
    "mask = x.data > 0": {"x": READ},
    "if loss.data < best: pass": {"loss": READ},
    # numpy.
    "x.data.numpy()": {"x": READ},
    "plt.plot(x.data.numpy(), y.data.cpu().numpy())": {"x": READ, "y": READ},
    "a = x.cpu().data.numpy()": {"x.cpu()": READ},
    "a = np.array(x.data)": {"x": READ},
    "t = torch.from_numpy(t.data.numpy()[hard])": {"t": READ},
    "x.data.numpy()[0] = 1": {"x": UPDATE},
    "x.data.cpu().numpy()[0] += 1": {"x": UPDATE},
    "x.data.numpy()[0][1] = 1": {"x": UPDATE},
    "x.data.numpy().fill(0)": {"x": UPDATE},
    "np.add(a, 1, out=x.data.numpy())": {"x": UPDATE},
    "a = x.data.numpy()[0]": {"x": READ},
    # Scalars.
    "total += loss.data.item()": {"loss": READ},
    "print(loss.data[0])": {"loss": READ},
    "print('%.3f' % loss.data[0])": {"loss": READ},
    "text = '%.3f' % loss.data[0]": {"loss": READ},
    "text = '{}'.format(loss.data)": {"loss": READ},
    "running += loss.data[0]": {"loss": CARRY},
    "losses.append(loss.data)": {"loss": CARRY},
    "losses.append(loss.data.item())": {"loss": READ},
    "losses.append(float(loss.data))": {"loss": READ},
    "meter.update(loss.data[0], n)": {"loss": CARRY},
    # Reading, printing, plotting.
    "x.data": {"x": READ},
    "x.data[0]": {"x": READ},
    "print(x.data)": {"x": READ},
    "print('w', x.data, y.data)": {"x": READ, "y": READ},
    "print(name, p.grad.data.norm())": {"p.grad": READ},
    "print(torch.norm(x.data))": {"x": READ},
    "print(f'{x.data} {y.data:.3f} {w.data=}')": {"x": READ, "y": READ, "w": READ},
    "text = f'{x.data:{y.data}}'": {"x": READ, "y": READ},
    "print([p.data for p in ps])": {"p": READ},
    "print(sorted(x.data))": {"x": READ},
    "plt.imshow(vutils.make_grid(fake.data))": {"fake": READ},
    "ax.imshow(img.data.permute(1, 2, 0))": {"img": READ},
    "ax[0].hist(w.data)": {"w": READ},
    "writer.add_scalar('loss', loss.data, i)": {"loss": READ},
    "self.tb.add_histogram('w', w.data, i)": {"w": READ},
    "logger.info('%s', x.data)": {"x": READ},
    "bar.set_postfix(loss=loss.data)": {"loss": READ},
    "display(x.data)": {"x": READ},
    "assert x.data.sum() > 0": {"x": READ},
    "assert torch.allclose(x.data, y.data)": {"x": READ, "y": READ},
    "y = w.cpu().data": {"w.cpu()": CARRY},
    "torch.save(w.data, path)": {"w": READ},
    "torch.save({'w': w.data}, path)": {"w": READ},
    # State, shape, device.
    "b = torch.zeros_like(p.data)": {"p": READ},
    "b = weight.data.shape[0]": {"weight": READ},
    "n = weight.data.size(0)": {"weight": READ},
    "b = weight.data.new(3).zero_()": {"weight": READ},
    "b = weight.data.device, weight.data.type()": {"weight": READ},
    "h = weight.data.new_zeros(3)": {"weight": READ},
    "buffer = torch.clone(p.data).detach()": {"p": CARRY},
    # Sampling.
    "i = F.softmax(out, 1).data.multinomial(1)": {"F.softmax(out, 1)": READ},
    "i = torch.multinomial(p.data, 1)": {"p": READ},
    "q = F.softmax(out.data, 1)": {"out": CARRY},
    # A state that is carried over.
    "h = h.data": {"h": CARRY},
    "h = tuple([each.data for each in h])": {"each": CARRY},
    "h = (h[0].data, h[1].data)": {"h[0]": CARRY, "h[1]": CARRY},
    "self.mean = m * self.mean + (1 - m) * mean.data": {"mean": CARRY},
    # Targets, and what goes into forward.
    "target = Variable(q.data)": {"q": CARRY},
    "loss = F.mse_loss(out, q.data)": {"q": CARRY},
    "penalty(real.data, fake.data)": {"real": CARRY, "fake": CARRY},
    "masked = torch.mul(box.data, inside)": {"box": CARRY},
    "return_ = x @ self.weight.data + self.bias.data": {"self.weight": CARRY, "self.bias": CARRY},
    "adv = img + 0.1 * img.grad.data.sign()": {"img.grad": CARRY},
    "p.data.clamp_(0.2, 0.8); loss = p.sum()": {"p": UPDATE},
    "w.data.set_(t); w.data.resize_(2, 3)": {"w": UPDATE},
}


@pytest.mark.parametrize("source", PURPOSES)
def test_what_notebooks_do_with_it_gets_its_kind(source):
    found = kinds(source)
    expected = PURPOSES[source]
    assert {receiver: found[receiver] for receiver in expected} == expected


@pytest.mark.parametrize(
    ("source", "kind", "consumer"),
    [
        ("print(x.data)", READ, "print"),
        ("print(torch.norm(x.data))", READ, "print"),
        ("x.data.numpy()", READ, ".numpy"),
        ("x.data.view(-1).tolist()", READ, ".tolist"),
        ("np.log(x.data)", READ, "np.log"),
        ("f'{x.data}'", READ, "an f-string"),
        ("x.data == 1", READ, "a comparison"),
        ("y[x.data]", READ, "an index"),
        ("y[0, x.data:]", READ, "an index"),
        ("y = 1 if x.data else 2", READ, "a condition"),
        ("y = not x.data", READ, "a condition"),
        ("y = [a for a in b if x.data]", READ, "a condition"),
        ("x.data", READ, ""),
        ("while x.data: pass", READ, ""),
        ("x.data.add_(1)", UPDATE, ".add_"),
        ("x.data[0].mul_(1)", UPDATE, ".mul_"),
        ("x.data[0] = 1", UPDATE, "[...]"),
        ("x.data += 1", UPDATE, ""),
        ("torch.add(a, b, out=x.data)", UPDATE, "out="),
        ("nn.init.normal_(x.data)", UPDATE, "nn.init.normal_"),
        ("torch.relu_(x.data)", UPDATE, "torch.relu_"),
        ("F.relu(x.data, inplace=True)", UPDATE, "F.relu"),
        ("y = F.relu(x.data, inplace=False)", CARRY, "F.relu"),
        ("x.data.__setitem__(0, 1)", UPDATE, ".__setitem__"),
        ("x.data.numpy()[0] = 1", UPDATE, ".numpy()[...]"),
        ("x.data.numpy().sort()", UPDATE, ".numpy().sort"),
        ("x.data = 1", ASSIGN, ""),
        ("for x.data in y: pass", ASSIGN, ""),
        ("with y as x.data: pass", ASSIGN, ""),
        ("setattr(x, 'data', 1)", ASSIGN, "setattr"),
        ("del x.data", DELETE, ""),
        ("delattr(x, 'data')", DELETE, ""),
        ("print(getattr(x, 'data'))", READ, "print"),
        ("getattr(x, 'data').zero_()", UPDATE, ".zero_"),
        ("y = getattr(x, 'data', None)", CARRY, "y"),
        ("y = x.data", CARRY, "y"),
        ("a.b[0] = x.data", CARRY, "a.b"),
        ("y, z = x.data", CARRY, "y, z"),
        ("y += x.data", CARRY, "y"),
        ("y: T = x.data", CARRY, "y"),
        ("(y := x.data)", CARRY, "y"),
        ("y = x.data.view(1) * 2 + 1", CARRY, "y"),
        ("y = [x.data, *z]", CARRY, "y"),
        ("y = {'a': x.data}", CARRY, "y"),
        ("f(a, b=x.data)", CARRY, "f"),
        ("loss = mse(torch.exp(x.data), y)", CARRY, "torch.exp"),
        ("y = torch.exp(x.data).sum()", CARRY, "torch.exp"),
        ("y = torch.exp(torch.sin(x.data))", CARRY, "torch.sin"),
        ("y.add_(x.data)", CARRY, "y.add_"),
        ("def f(): return x.data", CARRY, "return"),
        ("f = lambda: x.data * 2", CARRY, "return"),
        ("def f(): yield x.data", CARRY, "yield"),
        ("for y in x.data: pass", CARRY, "for"),
        ("y = [a for a in x.data]", CARRY, "for"),
        ("for a, b in zip(x.data, y): pass", CARRY, "for"),
        ("async def f(): return await x.data", CARRY, "return"),
        ("x.data()", CARRY, ""),
        ("x.data.requires_grad_()", CARRY, ".requires_grad_"),
        ("x.data.requires_grad = True", CARRY, ".requires_grad"),
        ("x.data.grad = None", READ, ".grad"),
        ("class A(x.data): pass", CARRY, ""),
        ("class A(metaclass=x.data): pass", CARRY, ""),
        ("def f(a=x.data): pass", CARRY, ""),
        ("@x.data\ndef f(): pass", CARRY, ""),
        ("with x.data: pass", CARRY, ""),
        ("match x.data:\n    case _: pass", CARRY, ""),
        ("raise x.data", READ, ""),
    ],
)
def test_kind_and_consumer(source, kind, consumer):
    [(receiver, found, by)] = [use for use in uses(source) if use[0] == "x"]
    assert (receiver, found, by) == ("x", kind, consumer)


def test_each_access_of_a_chain_has_its_own_use():
    assert uses("x.data.data.zero_()") == [("x.data", UPDATE, ".zero_"), ("x", UPDATE, ".zero_")]
    assert uses("x.data.data = y") == [("x.data", ASSIGN, ""), ("x", READ, ".data")]
    assert uses("print(w.grad.data.data)")[1] == ("w.grad", READ, "print")


def test_equal_receivers_are_told_apart():
    assert uses("w.data = w.data * 2") == [("w", ASSIGN, ""), ("w", READ, "w.data")]
    assert uses("t.data.copy_(t.data)") == [("t", UPDATE, ".copy_"), ("t", READ, "t.data.copy_")]


def test_terms_of_one_sum_share_what_becomes_of_it():
    """Each is climbed as far as to the first that is known: in linear time, and not mixed up."""
    assert uses("y = a.data + torch.exp(b.data) + c.data.sum() + len(d.data)") == [
        ("a", CARRY, "y"),
        ("b", CARRY, "torch.exp"),
        ("c", CARRY, "y"),
        ("d", READ, "len"),
    ]


def test_a_use_in_a_nested_function_is_that_functions():
    source = """
        def outer():
            def inner(): return print(x.data)
            return inner, y.data
        """
    assert kinds(source) == {"x": READ, "y": CARRY}
