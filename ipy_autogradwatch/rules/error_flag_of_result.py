"""AGW412 flag-of-result: requires_grad of a result was to be changed."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = r"you can only change requires_grad flags of leaf variables"


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(failed.statement, "requires_grad", "requires_grad_")
    yield finding(
        RULE,
        failed,
        headline=f"`{text or failed.line_text}` is a result: its flag follows from what it was computed from",
        why="Only a leaf has a flag of its own. A result without a graph is another tensor.",
        evidence=(("raised by", "this line"),),
        instead=f"{text or 'h'} = {text or 'h'}.detach(); or freeze the parameters before the forward",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW412",
    name="flag-of-result",
    severity=Severity.WRONG,
    summary="The flag `requires_grad` of a result was to be switched off.",
    why=(
        "A result requires grad because what it was computed from does; the flag is not its own.\n"
        "`detach()` gives a tensor with the same values and no graph. To freeze a layer, switch off its\n"
        "parameters, before the graph is recorded."
    ),
    bad="""\
import torch
x = torch.ones(3, requires_grad=True)
h = x * 2
h.requires_grad = False
""",
    good="""\
import torch
x = torch.ones(3, requires_grad=True)
h = x * 2
h = h.detach()
""",
    near_miss="""\
import torch
x = torch.ones(3, requires_grad=True)
x.requires_grad = False      # a leaf
""",
    sources=("`torch/csrc/autograd/python_variable.cpp`, `THPVariable_set_requires_grad`",),
    check=check,
)
