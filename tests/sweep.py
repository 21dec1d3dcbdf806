"""Settle the gradients of every kind of layer, loss and operation; print a table.

    python tests/sweep.py

Each program must come out as it says, and none may be called wrong. A root is the sum of
all results with fixed random weights, so that nothing cancels.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.prove.check import CellCheck, Options

RIGHT = frozenset({"right"})
QUIET = frozenset({"right", "by_design"})
UNSURE = frozenset({"right", "undecided"})
"""One of the operations has a derivative of its own, or no double precision."""


def fixed(*shape):
    """Return the same random numbers each time, and draw none from PyTorch's generator."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


X2, X3, X4 = fixed(6, 8), fixed(2, 7, 8), fixed(2, 4, 8, 8)
X5 = fixed(2, 4, 6, 6, 6)
IMAGE1 = fixed(2, 4, 16)


def weighted(result):
    """Return a number that depends on each element of *result* by a weight of its own."""
    tensors = result if isinstance(result, (tuple, list)) else [result]
    total = 0
    for tensor in tensors:
        if isinstance(tensor, (tuple, list)):
            total = total + weighted(tensor)
        elif isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            weights = torch.randn(
                tensor.shape, dtype=tensor.dtype, generator=torch.Generator().manual_seed(1)
            )
            part = (tensor * weights).sum()
            total = total + (part.abs() if part.is_complex() else part)
    return total


def settle(program, *, backwards=3):
    """Run *program*, which returns a root or calls backward itself; return its verdicts."""
    fence = Fence()
    check = CellCheck(
        Options(backwards=backwards), lambda name: (1, 0) if name == __file__ else None, fence
    )
    torch.manual_seed(0)
    check.begin()
    try:
        root = program()
        if isinstance(root, torch.Tensor):
            root.backward()
    finally:
        check.end()
    assert not fence.history, fence.history[0].traceback
    return check.verdicts(lambda tensor: None)


def of_module(make, *inputs, train=True, call=None):
    """Return a program that runs a module on *inputs*, the first of which requires grad."""

    def program():
        module = make().train(train)
        given = [t.clone() if isinstance(t, torch.Tensor) else t for t in inputs]
        first = given[0].requires_grad_() if given[0].is_floating_point() else given[0]
        # A layer in front, so that the input is a result as well.
        front = first * 1.5 if first.is_floating_point() else first
        return weighted(module(front, *given[1:]) if call is None else call(module, front))

    return program


def modules():
    """Yield the layers."""
    for name in [
        "ELU",
        "Hardshrink",
        "Hardsigmoid",
        "Hardtanh",
        "Hardswish",
        "LeakyReLU",
        "LogSigmoid",
        "PReLU",
        "ReLU",
        "ReLU6",
        "RReLU",
        "SELU",
        "CELU",
        "GELU",
        "Sigmoid",
        "SiLU",
        "Mish",
        "Softplus",
        "Softshrink",
        "Softsign",
        "Tanh",
        "Tanhshrink",
        "Softmin",
        "Softmax",
        "LogSoftmax",
        "Identity",
        "Dropout",
        "AlphaDropout",
        "FeatureAlphaDropout",
    ]:
        make = getattr(nn, name)
        options = {"dim": -1} if name in ("Softmin", "Softmax", "LogSoftmax") else {}
        yield name, of_module(lambda make=make, options=options: make(**options), X2), RIGHT
    yield "GLU", of_module(nn.GLU, X2), RIGHT
    yield "Threshold", of_module(lambda: nn.Threshold(0.1, 2.0), X2), RIGHT
    for name in ("ReLU", "ELU", "Hardtanh", "SiLU", "LeakyReLU", "Dropout"):
        make = getattr(nn, name)
        yield f"{name} in place", of_module(lambda make=make: make(inplace=True), X2), RIGHT
    yield "Linear", of_module(lambda: nn.Linear(8, 3), X2), RIGHT
    yield "Bilinear", of_module(lambda: nn.Bilinear(8, 8, 3), X2, X2), RIGHT
    for d, x in ((1, IMAGE1), (2, X4), (3, X5)):
        for name in ("Conv", "ConvTranspose"):
            make = getattr(nn, f"{name}{d}d")
            yield f"{name}{d}d", of_module(lambda make=make: make(4, 3, 3), x), RIGHT
        for name in ("BatchNorm", "InstanceNorm"):
            make = getattr(nn, f"{name}{d}d")
            for train in (True, False):
                layer = of_module(lambda make=make: make(4, affine=True), x, train=train)
                yield f"{name}{d}d {'train' if train else 'eval'}", layer, RIGHT
        for name in ("MaxPool", "AvgPool"):
            make = getattr(nn, f"{name}{d}d")
            yield f"{name}{d}d", of_module(lambda make=make: make(2), x), RIGHT
        for name in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
            make = getattr(nn, f"{name}{d}d")
            yield f"{name}{d}d", of_module(lambda make=make: make(2), x), RIGHT
        yield f"Dropout{d}d", of_module(getattr(nn, f"Dropout{d}d"), x), RIGHT
    yield "LPPool2d", of_module(lambda: nn.LPPool2d(2, 2), X4.abs()), RIGHT
    yield (
        "FractionalMaxPool2d",
        of_module(lambda: nn.FractionalMaxPool2d(2, output_size=3), X4),
        RIGHT,
    )
    yield "GroupNorm", of_module(lambda: nn.GroupNorm(2, 4), X4), RIGHT
    yield "LayerNorm", of_module(lambda: nn.LayerNorm(8), X3), RIGHT
    yield "RMSNorm", of_module(lambda: nn.RMSNorm(8), X3), RIGHT
    yield "LocalResponseNorm", of_module(lambda: nn.LocalResponseNorm(2), X4), RIGHT
    yield "Upsample", of_module(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), X4), RIGHT
    yield "PixelShuffle", of_module(lambda: nn.PixelShuffle(2), X4), RIGHT
    yield "Unfold", of_module(lambda: nn.Unfold(2), X4), RIGHT
    yield "ReflectionPad2d", of_module(lambda: nn.ReflectionPad2d(1), X4), RIGHT
    yield "CosineSimilarity", of_module(nn.CosineSimilarity, X2, X2.flip(0)), RIGHT
    yield "PairwiseDistance", of_module(nn.PairwiseDistance, X2, X2.flip(0)), RIGHT
    ids = torch.tensor([[1, 2, 2], [4, 0, 1]])
    yield "Embedding", of_module(lambda: nn.Embedding(5, 3), ids), RIGHT
    yield "Embedding sparse", of_module(lambda: nn.Embedding(5, 3, sparse=True), ids), RIGHT
    yield "EmbeddingBag", of_module(lambda: nn.EmbeddingBag(5, 3), ids), RIGHT
    for name in ("RNN", "GRU"):
        make = getattr(nn, name)
        yield name, of_module(lambda make=make: make(8, 5, 2, batch_first=True), X3), RIGHT
    yield "LSTM", of_module(lambda: nn.LSTM(8, 5, batch_first=True), X3), UNSURE
    yield "LSTM both ways", of_module(lambda: nn.LSTM(8, 5, bidirectional=True), X3), UNSURE
    for name in ("RNNCell", "GRUCell", "LSTMCell"):
        make = getattr(nn, name)
        yield name, of_module(lambda make=make: make(8, 5), X2), RIGHT
    attention = lambda m, x: m(x, x, x)[0]  # noqa: E731
    yield (
        "MultiheadAttention",
        of_module(lambda: nn.MultiheadAttention(8, 2), X3, call=attention),
        RIGHT,
    )
    for train in (True, False):
        layer = of_module(lambda: nn.TransformerEncoderLayer(8, 2, 16), X3, train=train)
        yield f"TransformerEncoderLayer {'train' if train else 'eval'}", layer, RIGHT
    twice = lambda m, x: m(x, x)  # noqa: E731
    yield (
        "TransformerDecoderLayer",
        of_module(lambda: nn.TransformerDecoderLayer(8, 2, 16), X3, call=twice),
        RIGHT,
    )
    yield "Transformer", of_module(lambda: nn.Transformer(8, 2, 1, 1, 16), X3, call=twice), RIGHT
    wrap = nn.utils.parametrizations
    yield "weight_norm", of_module(lambda: wrap.weight_norm(nn.Linear(8, 3)), X2), QUIET
    yield "spectral_norm", of_module(lambda: wrap.spectral_norm(nn.Linear(8, 3)), X2), QUIET
    yield "LazyLinear", of_module(lambda: nn.LazyLinear(3), X2), RIGHT


def losses():
    """Yield the losses."""
    target, labels, ones = X2.flip(0), torch.tensor([0, 1, 2, 3, 4, 5]), torch.ones(6)
    cases = {
        "l1_loss": (X2, target),
        "mse_loss": (X2, target),
        "smooth_l1_loss": (X2, target),
        "huber_loss": (X2, target),
        "cross_entropy": (X2, labels),
        "multi_margin_loss": (X2, labels),
        "multilabel_margin_loss": (X2, labels.new_full((6, 8), -1).scatter(1, labels[:, None], 3)),
        "multilabel_soft_margin_loss": (X2, (target > 0).float()),
        "soft_margin_loss": (X2, target.sign()),
        "binary_cross_entropy_with_logits": (X2, target.sigmoid()),
        "hinge_embedding_loss": (X2, target.sign()),
        "poisson_nll_loss": (X2, target.exp()),
    }
    for name, arguments in cases.items():
        loss = getattr(F, name)
        yield name, (lambda loss=loss, a=arguments: loss(leaf(a[0]), a[1])), RIGHT
    yield (
        "binary_cross_entropy",
        lambda: F.binary_cross_entropy(leaf(X2).sigmoid(), target.sigmoid()),
        RIGHT,
    )
    yield "nll_loss", lambda: F.nll_loss(leaf(X2).log_softmax(-1), labels), RIGHT
    yield (
        "kl_div",
        lambda: F.kl_div(leaf(X2).log_softmax(-1), target.softmax(-1), reduction="batchmean"),
        RIGHT,
    )
    yield "gaussian_nll_loss", lambda: F.gaussian_nll_loss(leaf(X2), target, leaf(X2).exp()), RIGHT
    yield "cosine_embedding_loss", lambda: F.cosine_embedding_loss(leaf(X2), target, ones), RIGHT
    yield (
        "margin_ranking_loss",
        lambda: F.margin_ranking_loss(leaf(X2), target, target.sign()),
        RIGHT,
    )
    yield (
        "triplet_margin_loss",
        lambda: F.triplet_margin_loss(leaf(X2), target, X2.roll(1, 0)),
        RIGHT,
    )

    def ctc():
        scores = torch.randn(12, 2, 5).requires_grad_().log_softmax(-1)
        lengths = torch.tensor([12, 12]), torch.tensor([4, 4])
        return F.ctc_loss(scores, torch.randint(1, 5, (2, 4)), *lengths)

    yield "ctc_loss", ctc, RIGHT


def leaf(values):
    """Return a fresh leaf with *values*."""
    return values.detach().clone().requires_grad_()


def operations():
    """Yield operations and ways to use autograd."""
    square = fixed(5, 5) + 3 * torch.eye(5)
    yield "inv, logdet", lambda: torch.linalg.inv(leaf(square) @ leaf(square).T).logdet(), RIGHT
    yield "svd", lambda: torch.linalg.svdvals(leaf(square)).sum(), RIGHT
    yield (
        "cholesky",
        lambda: weighted(torch.linalg.cholesky(leaf(square) @ square.T + leaf(square).T @ square)),
        UNSURE,
    )
    yield "solve", lambda: weighted(torch.linalg.solve(leaf(square), leaf(square[:, :2]))), RIGHT
    yield "rfft", lambda: torch.fft.rfft(leaf(square)).abs().sum(), RIGHT
    yield (
        "complex",
        lambda: (torch.complex(leaf(square), leaf(square)) ** 2).conj().imag.sum(),
        RIGHT,
    )
    yield (
        "complex leaf",
        lambda: (leaf(torch.randn(4, dtype=torch.complex64)) ** 2).abs().sum(),
        RIGHT,
    )
    yield "cumsum, cumprod", lambda: weighted(leaf(square).cumsum(0).cumprod(1)), RIGHT
    yield "sort, topk", lambda: weighted(leaf(square).sort().values.topk(2).values), RIGHT
    yield (
        "gather, scatter",
        lambda: weighted(
            torch.zeros(5, 5).scatter_add(
                0, torch.randint(5, (5, 5)), leaf(square).gather(1, torch.randint(5, (5, 5)))
            )
        ),
        RIGHT,
    )
    yield (
        "where, masked_fill",
        lambda: weighted(
            torch.where(square > 0, leaf(square), leaf(square) * 2).masked_fill(square > 3, 0.0)
        ),
        RIGHT,
    )
    yield (
        "advanced indexing",
        lambda: weighted(leaf(square)[torch.tensor([0, 0, 2]), :, None][:, square[0] > 0]),
        RIGHT,
    )
    yield (
        "einsum, expand",
        lambda: weighted(
            torch.einsum("ij,kj->ik", leaf(square), leaf(square)[None, 0].expand(3, 5))
        ),
        RIGHT,
    )
    yield (
        "scaled_dot_product_attention",
        lambda: weighted(
            F.scaled_dot_product_attention(*(leaf(torch.randn(1, 2, 5, 4)) for _ in range(3)))
        ),
        RIGHT,
    )

    def written():
        x = leaf(square)
        y = x * 2
        y[0] = x[1] ** 2
        y[:, 1].mul_(x[2])
        y.view(-1)[3:7].exp_()
        return weighted(y)

    yield "views written in place", written, RIGHT

    def filled():
        x = leaf(square)
        rows = torch.zeros(5, 5)
        for i in range(5):
            rows[i] = torch.tanh(x[i] + rows[i - 1])
        return weighted(rows)

    yield "buffer written row by row", filled, RIGHT

    def tied():
        layer = nn.Linear(5, 5)
        return weighted(F.linear(layer(leaf(square)).tanh(), layer.weight.t()))

    yield "tied weights", tied, RIGHT
    for reentrant in (True, False):
        layer = nn.Linear(5, 5)
        run = lambda t, layer=layer: layer(t).tanh()  # noqa: E731
        yield (
            f"checkpoint, reentrant {reentrant}",
            lambda run=run, r=reentrant: weighted(checkpoint(run, leaf(square), use_reentrant=r)),
            RIGHT,
        )

    def hooks():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            return weighted(leaf(square).exp() * leaf(square))

    yield "saved-tensor hooks", hooks, RIGHT

    def tensor_hook():
        x = leaf(square)
        x.register_hook(lambda grad: grad * 2)
        return weighted(x.exp())

    yield "tensor hook that scales", tensor_hook, QUIET

    def autocast():
        layer = nn.Linear(5, 5)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = layer(leaf(square))
        return weighted(out.float())

    yield "autocast bfloat16", autocast, RIGHT

    def penalty():
        x = leaf(square)
        (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return grad.square().sum()

    yield "gradient penalty", penalty, RIGHT

    def twice():
        x = leaf(square)
        y = (x.sin() * x).sum()
        y.backward(retain_graph=True)
        y.backward()

    yield "backward twice, retained", twice, RIGHT

    def several():
        x = leaf(square)
        h = x.tanh()
        h.sum().backward(retain_graph=True)
        (h * h).sum().backward()

    yield "several backwards into one leaf", several, RIGHT

    def only_inputs():
        x, w = leaf(square), leaf(square)
        (x @ w).sum().backward(inputs=[w])

    yield "inputs=", only_inputs, RIGHT
    yield "gradient=", lambda: (leaf(square) ** 2).backward(square), RIGHT
    yield (
        "func.grad",
        lambda: weighted(torch.func.grad(lambda t: (t**3).sum())(leaf(square))),
        RIGHT,
    )
    yield (
        "func.vmap",
        lambda: weighted(torch.func.vmap(lambda t: t.softmax(0).cumsum(0))(leaf(square))),
        RIGHT,
    )
    yield (
        "func.jvp",
        lambda: weighted(torch.func.jvp(torch.sin, (leaf(square),), (torch.ones(5, 5),))[1]),
        RIGHT,
    )
    yield (
        "functional_call",
        lambda: weighted(
            torch.func.functional_call(nn.Linear(5, 2), {"weight": leaf(square)[:2] * 2}, (square,))
        ),
        RIGHT,
    )
    yield "detach", lambda: weighted(leaf(square) * leaf(square).detach().exp()), RIGHT

    def straight_through():
        x = leaf(square)
        return weighted((x + (x.round() - x).detach()) ** 2)

    yield "straight through", straight_through, QUIET
    normal = torch.distributions.Normal
    yield "rsample", lambda: weighted(normal(leaf(square), leaf(square).exp()).rsample()), RIGHT
    yield (
        "Gamma.rsample",
        lambda: weighted(torch.distributions.Gamma(leaf(square).exp(), 1.0).rsample()),
        UNSURE,
    )
    yield "gumbel_softmax hard", lambda: weighted(F.gumbel_softmax(leaf(square), hard=True)), QUIET

    def training():
        net = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 6)
        )
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(net(X2), torch.arange(6)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()

    yield "training loop", training, RIGHT

    def packed():
        rnn = nn.GRU(3, 4, batch_first=True)
        pack = nn.utils.rnn.pack_padded_sequence(
            torch.randn(2, 5, 3), torch.tensor([5, 3]), batch_first=True
        )
        out, _ = rnn(pack)
        return weighted(nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0])

    yield "packed GRU", packed, RIGHT


def programs():
    """Yield (name, program, verdicts that are allowed)."""
    yield from modules()
    yield from losses()
    yield from operations()


def run(show=print):
    """Settle all of them; return the names of those that came out otherwise than they must."""
    bad = []
    for name, program, allowed in programs():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdicts = settle(program)
        counts = Counter(v.verdict for v in verdicts)
        ok = bool(counts) and set(counts) <= allowed
        text = ", ".join(f"{n} {v}" for v, n in counts.most_common()) or "nothing settled"
        reasons = {v.reason for v in verdicts if v.verdict != "right"} if not ok else set()
        show(f"{'  ' if ok else '! '}{name:36} {text}" + "".join(f"\n      {r}" for r in reasons))
        if not ok:
            bad.append(name)
    return bad


if __name__ == "__main__":
    failed = run()
    print(f"{len(failed)} came out otherwise than they must" if failed else "all as they must")
    sys.exit(bool(failed))
