"""AGW407 dtype-without-gradient: a tensor of integers or booleans cannot require grad."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = r"[Oo]nly Tensors of floating point( and complex)? dtype can require gradients"


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(
        failed.statement,
        "tensor",
        "requires_grad_",
        "Parameter",
        "as_tensor",
        "zeros",
        "ones",
        "arange",
        "randint",
        "full",
    )
    yield finding(
        RULE,
        failed,
        headline=f"`{text or failed.line_text}` is of integers or booleans, which have no gradient",
        why="A derivative asks what a small change does, and there is no small change of an integer.",
        evidence=(("raised by", "this line"),),
        instead="numbers with a point, as 1.0; dtype=torch.float32; or .float() before requires_grad_()",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW407",
    name="dtype-without-gradient",
    severity=Severity.WRONG,
    summary="A tensor of integers or booleans was asked to require grad.",
    why=(
        "A derivative asks what a small change does, and an integer has none. `torch.tensor([1, 2])`\n"
        "is of integers because its numbers are written without a point."
    ),
    bad="""\
import torch
x = torch.tensor([1, 2, 3], requires_grad=True)
""",
    good="""\
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
""",
    near_miss="""\
import torch
x = torch.tensor([1, 2, 3]).float().requires_grad_()
""",
    sources=("`torch/csrc/autograd/python_variable.cpp`, `THPVariable_set_requires_grad`",),
    check=check,
)
