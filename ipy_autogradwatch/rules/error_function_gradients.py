"""AGW416 backward-of-wrong-form: the backward of a custom Function returned something that does not fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement

_RAISED = (
    r"returned an? (incorrect number of gradients|invalid gradient at index)|(\w+)Backward returned an"
    r"|expected Variable or None|element \d+ of the list of.*custom Function"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    found = re.search(r"(?:[Ff]unction )?(\w+?)Backward", failed.match.string)
    name = found[1] if found else "Function"
    statement = _backward_of(failed.program, name)
    yield finding(
        RULE,
        failed,
        headline=f"the backward of `{name}` returned gradients that do not fit the arguments of its forward",
        why="It returns one gradient for each argument of forward, in its order and of its shape, or None for one that needs none.",
        evidence=(("error", " ".join(failed.match.string.split())[:160]),),
        instead="as many values as forward has arguments after ctx, None for what is no tensor; .sum() over what was broadcast",
        at=statement or failed.statement,
    )


def _backward_of(program: Program, name: str) -> Statement | None:
    """Return the first line of the last ``return`` of ``name.backward``, if a cell has it."""
    found = None
    for statement in program.newest_first():
        if statement.scope == f"{name}.backward" and isinstance(statement.node, ast.Return):
            if found is not None and found.cell != statement.cell:
                break
            if found is None or statement.line > found.line:
                found = statement
    return found


RULE = Rule(
    code="AGW416",
    name="backward-of-wrong-form",
    severity=Severity.WRONG,
    summary="The `backward` of a custom Function returned the wrong number of gradients, or one of a wrong shape.",
    why=(
        "`backward` returns one gradient for each argument of `forward`, in its order: of the shape of\n"
        "that argument, or None for what is no tensor or needs none. What broadcasting has spread out,\n"
        "must be summed up again."
    ),
    bad="""\
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor

x = torch.ones(3, requires_grad=True)
Scale.apply(x, 2.0).sum().backward()
""",
    good="""\
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None

x = torch.ones(3, requires_grad=True)
Scale.apply(x, 2.0).sum().backward()
""",
    near_miss="""\
import torch

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2

x = torch.ones(3, requires_grad=True)
Twice.apply(x).sum().backward()
""",
    sources=("`torch/csrc/autograd/python_function.cpp`, `PyNode::apply`",),
    check=check,
)
