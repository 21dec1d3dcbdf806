"""AGW419 derivative-not-there: backward goes through an operation that has no derivative."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = (
    r"derivative for '?[\w:. ]+'? is not implemented"
    r"|(\w+) is not differentiable|trying to differentiate twice a function that was marked"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(failed.statement, "backward", "grad")
    root = text or failed.line_text
    yield finding(
        RULE,
        failed,
        headline=f"the graph of `{root}` goes through an operation that cannot be differentiated here",
        why="PyTorch has no derivative of it, or no second one. The operation stands where its result was computed.",
        evidence=(("error", " ".join(failed.match.string.split())[:160]),),
        instead="the same by operations that have a derivative; for a custom Function, a backward of differentiable operations without once_differentiable",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW419",
    name="derivative-not-there",
    severity=Severity.WRONG,
    summary="Backward goes through an operation for which PyTorch has no derivative.",
    why=(
        "Some operations have no derivative in PyTorch at all, some no second one. The error comes from\n"
        "backward, and the operation stands where its result was computed."
    ),
    bad="""\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = torch.igamma(x, torch.ones(2)).sum()
y.backward()
""",
    good="""\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = torch.igamma(torch.ones(2), x).sum()      # it has one in its second argument
y.backward()
""",
    near_miss="""\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
x.argmax()
(x * x).sum().backward()
""",
    sources=("`torch/autograd/function.py`, `once_differentiable`",),
    check=check,
)
