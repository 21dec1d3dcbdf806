"""AGW208 gradients-left-off: a cell switches gradients off, and later cells have none."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._cuts import switched_off
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    if record.grad_off_before or not record.grad_off or record.error is not None:
        return
    program = Program(record.sources)
    cut = switched_off(program)
    if cut is None:
        return
    yield finding_at(
        RULE,
        program,
        cut.statement,
        part=cut.node,
        headline=f"`{cut.text}` stays in force after this cell: nothing is recorded from here on",
        why="Right in a notebook that only evaluates. A cell that trains will fail, or a part of "
        "it will silently be a constant.",
        evidence=(("gradients at the end of the cell", "off"),),
        instead="with torch.no_grad(): for a block; torch.set_grad_enabled(True) to go back",
    )


RULE = Rule(
    code="AGW208",
    name="gradients-left-off",
    severity=Severity.NOTE,
    summary="A cell switches gradients off for all later cells.",
    why=(
        "`torch.set_grad_enabled(False)` as a statement, and `torch.no_grad().__enter__()`, last\n"
        "until somebody switches gradients on again, in whatever cell. `with torch.no_grad():` ends\n"
        "with its block."
    ),
    bad="""\
import torch
x = torch.ones(2, requires_grad=True)
torch.set_grad_enabled(False)
y = x * 2
""",
    good="""\
import torch
x = torch.ones(2, requires_grad=True)
with torch.no_grad():
    y = x * 2
""",
    near_miss="""\
import torch
x = torch.ones(2, requires_grad=True)
torch.set_grad_enabled(False)
y = x * 2
torch.set_grad_enabled(True)
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.set_grad_enabled.html>",),
    check=check,
)
