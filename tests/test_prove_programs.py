"""Verdicts on random programs agree with an oracle that never saw the recording.

A program is a list of steps over a pool of tensors. It is run twice: as a user would write
it, with in-place operations, views, dtype casts and perhaps one fault, under the check; and
as a pure function in double precision, whose gradient is the truth.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.prove.check import CellCheck, Options

SHAPE = (3, 4)
UNARY = {
    "sin": torch.sin,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": lambda t: (t * 0.3).exp(),
    "square": torch.square,
    "softmax": lambda t: t.softmax(-1),
    "cumsum": lambda t: t.cumsum(0),
    "flip": lambda t: t.flip(0),
    "scaled": lambda t: t * 1.7,
    "sorted": lambda t: t.sort(-1).values,
    "roll": lambda t: t.roll(1, 0),
    "norm": lambda t: t / (t.square().sum().sqrt() + 1),
}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "mix": lambda a, b: torch.lerp(a, b, 0.3),
    "matmul": lambda a, b: a @ b.T @ b,
    "where": lambda a, b: torch.where(PATTERN, a, b),
}
PATTERN = torch.tensor([[True, False, True, False]]).expand(SHAPE)
# Written into a copy, so that the program stays one that backward accepts.
IN_PLACE = {
    "row times": (lambda t: t[0].mul_(1.5), lambda t: torch.cat([t[:1] * 1.5, t[1:]])),
    "all plus": (lambda t: t.add_(0.5), lambda t: t + 0.5),
    "relu": (lambda t: t.relu_(), torch.relu),
    "column exp": (
        lambda t: t[:, 1].sin_(),
        lambda t: torch.cat([t[:, :1], t[:, 1:2].sin(), t[:, 2:]], 1),
    ),
    "fill": (lambda t: t[1:].fill_(0.2), lambda t: torch.cat([t[:1], torch.full_like(t[1:], 0.2)])),
}
FAULTS = ("none", "none", "cut", "saved", "edit", "function", "leaf")


class WrongSquare(torch.autograd.Function):
    """Its backward forgets the factor 2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x


index = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), index),
        st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), index, index),
        st.tuples(st.just("in place"), st.sampled_from(sorted(IN_PLACE)), index),
        st.tuples(st.just("view"), st.sampled_from(["t", "reshape", "chunk"]), index),
        st.tuples(st.just("cast"), st.just(""), index),
        st.tuples(st.just("detached"), st.just(""), index, index),
    ),
    min_size=2,
    max_size=9,
)


def as_user(plan, leaves, fault):
    """Run the program as a user would; return its root. The last result carries the fault."""
    pool = list(leaves)
    for step in plan:
        kind, name, *where = step
        taken = [pool[i % len(pool)] for i in where]
        if kind == "unary":
            pool.append(UNARY[name](taken[0]))
        elif kind == "binary":
            pool.append(BINARY[name](*taken))
        elif kind == "in place":
            copy = taken[0] * 1.0
            IN_PLACE[name][0](copy)
            pool.append(copy)
        elif kind == "view":
            pool.append(VIEWS[name](taken[0]))
        elif kind == "cast":
            pool.append(taken[0].double().to(taken[0].dtype))
        else:
            with torch.no_grad():
                factor = taken[1].sin()
            pool.append(taken[0] * factor + taken[0] * taken[1].detach())
    last, x = pool[-1], leaves[0]
    if fault == "cut":
        last = last + (x * x).data * x
    elif fault == "function":
        last = last + WrongSquare.apply(x)
    elif fault == "edit":
        h = x * 1.3
        h.data.mul_(3.0)
        last = last + h * x
    saved = (x * 0.9).sigmoid()
    root = weighted(last + saved * 0.5)
    if fault == "saved":
        saved.data.mul_(0.25)
    elif fault == "leaf":
        root = root + (x * x).sum()
        x.data.add_(1.0)
    return root


VIEWS = {
    "t": lambda t: t.t().contiguous().t(),
    "reshape": lambda t: t.reshape(4, 3).reshape(SHAPE),
    "chunk": lambda t: torch.cat(t.chunk(3, 0)[::-1]),
}


def weighted(tensor):
    weights = torch.linspace(0.5, 1.5, tensor.numel()).reshape(tensor.shape)
    return (tensor * weights.to(tensor.dtype)).sum()


def truth(plan, values, fault):
    """Return the gradient of the number that the program computes, as a pure function."""

    def root(*leaves):
        pool = list(leaves)
        for step in plan:
            kind, name, *where = step
            taken = [pool[i % len(pool)] for i in where]
            if kind == "unary":
                pool.append(UNARY[name](taken[0]))
            elif kind == "binary":
                pool.append(BINARY[name](*taken))
            elif kind == "in place":
                pool.append(IN_PLACE[name][1](taken[0] * 1.0))
            elif kind == "view":
                pool.append(VIEWS[name](taken[0]))
            elif kind == "cast":
                pool.append(taken[0])
            else:
                # What is stopped on purpose stays stopped in the derivative that is asked for.
                pool.append(taken[0] * taken[1].detach().sin() + taken[0] * taken[1].detach())
        last, x = pool[-1], leaves[0]
        if fault == "cut":
            last = last + (x * x) * x
        elif fault == "function":
            last = last + x * x
        elif fault == "edit":
            last = last + x * 1.3 * 3.0 * x
        total = weighted(last + (x * 0.9).sigmoid() * 0.5)
        return total + (x * x).sum() if fault == "leaf" else total

    leaves = [value.double().requires_grad_() for value in values]
    return torch.autograd.grad(root(*leaves), leaves, allow_unused=True)


def check_one(plan, seed, fault):
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(SHAPE, generator=generator) for _ in range(2)]
    leaves = [value.clone().requires_grad_() for value in values]
    fence = Fence()
    check = CellCheck(Options(), lambda name: (1, 0) if name == __file__ else None, fence)
    check.begin()
    try:
        root = as_user(plan, leaves, fault)
        root.backward()
    finally:
        check.end()
    assert not fence.history, fence.history[0].traceback
    names = {id(leaf): f"leaf {i}" for i, leaf in enumerate(leaves)}
    verdicts = {v.leaf: v for v in check.verdicts(lambda tensor: names.get(id(tensor)))}
    true = truth(plan, values, fault)
    for number, (leaf, right) in enumerate(zip(leaves, true, strict=True)):
        verdict = verdicts.get(f"leaf {number}")
        if verdict is None:
            assert leaf.grad is None
            continue
        right = torch.zeros(SHAPE).double() if right is None else right
        got = torch.zeros(SHAPE) if leaf.grad is None else leaf.grad
        error = float((got.double() - right).norm() / (right.norm() + 1e-9))
        size = float(right.norm())
        if not (got.isfinite().all() and right.isfinite().all()):
            assert verdict.verdict != "right"
            continue
        if error < 1e-4:
            assert verdict.verdict in ("right", "by_design", "undecided"), verdict
        elif error > 1e-2 and size > 1e-3:
            assert verdict.verdict in ("wrong", "undecided"), verdict
        if verdict.verdict == "wrong":
            assert fault != "none", verdict
            assert verdict.cause in CAUSES[fault], verdict
        if fault == "none" and verdict.verdict == "undecided":
            assert "kink" in verdict.reason or "derivative" in verdict.reason, verdict
    return verdicts


CAUSES = {
    "cut": ("data",),
    "saved": ("write",),
    "edit": ("write",),
    "function": ("function",),
    "leaf": ("write",),
}


@given(steps, st.integers(0, 10_000), st.sampled_from(FAULTS))
def test_verdicts_agree_with_the_oracle(plan, seed, fault):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_one(plan, seed, fault)


@pytest.mark.slow
@settings(max_examples=2_000, suppress_health_check=list(HealthCheck))
@given(steps, st.integers(0, 10_000), st.sampled_from(FAULTS))
def test_verdicts_agree_with_the_oracle_on_many_programs(plan, seed, fault):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_one(plan, seed, fault)


@pytest.mark.parametrize("fault", sorted(CAUSES))
def test_each_fault_is_found_in_a_plain_program(fault):
    plan = [("unary", "sin", 0), ("binary", "mul", 2, 1), ("unary", "tanh", 3)]
    verdicts = check_one(plan, 1, fault)
    assert verdicts["leaf 0"].verdict == "wrong"
    assert verdicts["leaf 1"].verdict == "right"


def test_a_verdict_that_is_off_would_be_noticed(monkeypatch):
    from ipy_autogradwatch.prove import causes

    monkeypatch.setattr(
        causes,
        "_by_write",
        lambda case, index, outcome: (
            setattr(outcome, "cause", "data") or setattr(outcome, "verdict", "wrong") or True
        ),
    )
    with pytest.raises(AssertionError):
        check_one([("unary", "sin", 0)] * 2, 1, "saved")
