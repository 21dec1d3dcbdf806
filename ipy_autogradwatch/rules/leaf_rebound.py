"""AGW303 leaf-rebound: a name of a leaf is bound to the result of an update."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    if _lost(record):
        program = Program(record.sources)
        for name, statement in rebound(record, program):
            yield _finding(program, statement, name)


def rebound(record: CellRecord, program: Program) -> Iterator[tuple[str, Statement]]:
    """Yield the names of leaves that this cell bound to the result of an update, and where."""
    for name in _lost(record):
        for statement in program.statements(record.cell):
            if name in statement.targets and _is_update(statement, name):
                yield name, statement
                break


def _lost(record: CellRecord) -> list[str]:
    """Return the variables that are results now, and were leaves or not there before."""
    return [
        name
        for name, state in record.after.items()
        if name.isidentifier()
        and state.requires_grad
        and not state.is_leaf
        and (name not in record.before or record.before[name].is_leaf)
    ]


def _is_update(statement: Statement, name: str) -> bool:
    return (
        name in statement.reads
        and f"{name}.grad" in statement.reads
        and not statement.is_in_place
        and not statement.under
    )


def _finding(program: Program, statement: Statement, name: str) -> Finding:
    return finding_at(
        RULE,
        program,
        statement,
        headline=f"`{name}` is bound to a new tensor, which is no leaf: its `.grad` will stay None",
        evidence=(("now", "the result of this line, with the old leaf behind it"),),
        why="An assignment binds the name to the result of an operation. Backward fills the "
        "gradient of the old leaf, which has no name any more.",
        instead=f"with torch.no_grad(): {name} -= …    # and {name}.grad = None",
        variables=(name,),
    )


RULE = Rule(
    code="AGW303",
    name="leaf-rebound",
    severity=Severity.WRONG,
    summary="An update `w = w - lr * w.grad` binds the name to a tensor that is no leaf.",
    why=(
        "`w = w - lr * w.grad` computes a new tensor and gives it the name. It is a result, not a\n"
        "leaf, so the next backward passes through it to the old leaf and leaves its `.grad` None.\n"
        "An update in place, under `torch.no_grad()`, keeps the leaf."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
w = w - 0.1 * w.grad
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
with torch.no_grad():
    w -= 0.1 * w.grad
""",
    near_miss="""\
import torch
x = torch.ones(2, requires_grad=True)
y = x * 2
y = y + 1      # a result that is bound again
y.sum().backward()
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html>",),
    check=check,
)
