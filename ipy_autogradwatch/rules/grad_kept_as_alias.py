"""AGW306 gradient-not-copied: a name that was to keep a gradient is the gradient itself."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, GradChange, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    kept = list(_kept(record))
    if not kept:
        return
    program = Program(record.sources)
    here = program.statements(record.cell)
    for name, leaf in kept:
        readers = [statement for statement in here if name in statement.reads]
        if not readers:
            continue
        for statement in program.assignments(name, readers[-1]):
            if any(read.endswith(".grad") for read in statement.reads):
                yield finding_at(
                    RULE,
                    program,
                    statement,
                    headline=f"`{name}` is `{leaf}.grad` itself, not a copy: it has changed since",
                    why="Backward adds to a gradient in place, and so do zero_() and clipping. A "
                    "name for the gradient sees every change.",
                    instead=f"{name} = {leaf}.grad.clone()",
                    evidence=(("changed by", "this cell, which also reads it"),),
                    variables=(name,),
                )
                break


def _kept(record: CellRecord) -> Iterator[tuple[str, str]]:
    """Yield variables that hold a gradient which this cell has changed in place, and its leaf."""
    holders = {s.identity: name for name, s in record.before.items() if name.isidentifier()}
    for leaf, before in record.before.items():
        after = record.after.get(leaf)
        if before.grad is None or before.grad.number is None or after is None:
            continue
        changed = after.grad is not None and after.grad.identity in (
            GradChange.ACCUMULATED,
            GradChange.WRITTEN,
        )
        holder = holders.get(before.grad.number)
        if holder is not None and changed:
            yield holder, leaf


RULE = Rule(
    code="AGW306",
    name="gradient-not-copied",
    severity=Severity.WRONG,
    summary="A name that was to keep a gradient is the gradient itself, and has changed.",
    why=(
        "`prev = w.grad` gives the gradient another name. As long as `.grad` is not set to None the\n"
        "same tensor is used by the next backward, so `prev` and `w.grad` are always equal and\n"
        "their difference is zero."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
prev = w.grad
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
prev = w.grad.clone()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
prev = w.grad
w.grad = None      # the next backward makes a new one
""",
    then="""\
(w * w * w).sum().backward()
change = w.grad - prev
""",
    sources=(
        "`torch/csrc/autograd/functions/accumulate_grad.h`, `AccumulateGrad::accumulateGrad`",
    ),
    check=check,
)
