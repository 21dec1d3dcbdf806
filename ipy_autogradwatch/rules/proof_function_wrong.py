"""AGW502 custom-backward-wrong: a Function's backward is not the derivative of its forward."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._verdict import finding, leaves, wrong_by_place


def check(record: CellRecord) -> Iterator[Finding]:
    for place, verdicts in wrong_by_place(record, "function"):
        called = verdicts[0].blame[1:2]
        found = finding(
            RULE,
            record,
            place,
            verdicts,
            headline=f"{verdicts[0].reason}; the gradient of {listed(leaves(verdicts))} is wrong",
            why="PyTorch takes what `backward` returns as it is. A wrong one trains, to somewhere "
            "else.",
            instead="return the derivative of what forward computes, times the incoming gradient; "
            "test it with %gradcheck Function.apply(x)",
            more=tuple(("called", f"cell {cell}, line {line}") for cell, line in called),
        )
        if found is not None:
            yield found


RULE = Rule(
    code="AGW502",
    name="custom-backward-wrong",
    severity=Severity.WRONG,
    summary="The backward of a custom Function is not the derivative of its forward.",
    why=(
        "Nothing compares the two methods of a `torch.autograd.Function`. `%%gradcheck` does, at\n"
        "the call: what `backward` returned for the gradient that it was given is compared with\n"
        "the derivative of the operations that `forward` ran. A Function that only passes its\n"
        "input on, or whose derivative is zero everywhere (rounding), must mean a gradient of its\n"
        "own, and is no fault."
    ),
    bad="""\
%%gradcheck
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 3 * x ** 2

x = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (5 * Cube.apply(x)).sum()
loss.backward()
""",
    good="""\
%%gradcheck
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * 3 * x ** 2

x = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (5 * Cube.apply(x)).sum()
loss.backward()
""",
    near_miss="""\
%%gradcheck
import torch

class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -grad      # on purpose: forward only passes x on

x = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (5 * Reverse.apply(x)).sum()
loss.backward()
""",
    sources=("<https://pytorch.org/docs/stable/notes/extending.html>",),
    check=check,
)
