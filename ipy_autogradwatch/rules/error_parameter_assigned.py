"""AGW420 parameter-assigned-result: a result was assigned to the name of a parameter."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding
from ipy_autogradwatch.rules._rule import Rule

_RAISED = r"cannot assign '.*' as parameter"


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    targets = sorted(failed.statement.targets) if failed.statement else []
    who = next((name for name in targets if "." in name), failed.line_text)
    yield finding(
        RULE,
        failed,
        headline=f"`{who}` is a parameter, and a result cannot take its place",
        why="A parameter is a leaf that an optimizer holds. A result is another tensor, which nobody would train.",
        evidence=(("raised by", "this line"),),
        instead=f"with torch.no_grad(): {who}.copy_(…); torch.func.functional_call for another weight in one call",
        at=failed.statement,
    )


RULE = Rule(
    code="AGW420",
    name="parameter-assigned-result",
    severity=Severity.WRONG,
    summary="A result was assigned where a module has a parameter.",
    why=(
        "A parameter is a leaf that the optimizer holds; a module lets nothing else take its place, for\n"
        "`model.fc.weight = model.fc.weight * 2` would leave the optimizer with the old one. Change the\n"
        "values in place under `torch.no_grad()`."
    ),
    bad="""\
import torch
m = torch.nn.Linear(2, 1)
m.weight = m.weight * 2
""",
    good="""\
import torch
m = torch.nn.Linear(2, 1)
with torch.no_grad():
    m.weight *= 2
""",
    near_miss="""\
import torch
m = torch.nn.Linear(2, 1)
m.weight = torch.nn.Parameter(torch.ones(1, 2))
""",
    sources=("`torch/nn/modules/module.py`, `Module.__setattr__`",),
    check=check,
)
