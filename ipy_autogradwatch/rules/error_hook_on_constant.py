"""AGW415 hook-on-constant: a hook was registered on a tensor without gradient."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = (
    r"cannot register a hook on a tensor that doesn't require gradient"
    r"|can't retain_grad on Tensor that has requires_grad=False"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(
        failed.statement, "register_hook", "retain_grad", "register_post_accumulate_grad_hook"
    )
    yield finding(
        RULE,
        failed,
        headline=f"`{text or failed.line_text}` requires no grad: there will be no gradient to hook",
        why="It is data, or its graph was lost on the way: at a detach, a .data or a no_grad.",
        evidence=(("raised by", "this line"),),
        instead="the hook on the tensor before the cut; requires_grad_() on data before the forward",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW415",
    name="hook-on-constant",
    severity=Severity.WRONG,
    summary="A hook or `retain_grad()` was asked of a tensor that gets no gradient.",
    why=(
        "A hook runs when the gradient of its tensor is computed. A tensor that requires none never gets\n"
        "one: it is data, or was cut off by `detach`, `.data` or `no_grad` on the way."
    ),
    bad="""\
import torch
x = torch.ones(3, requires_grad=True)
h = (x * 2).detach()
h.register_hook(print)
""",
    good="""\
import torch
x = torch.ones(3, requires_grad=True)
h = x * 2
h.register_hook(print)
""",
    near_miss="""\
import torch
x = torch.ones(3, requires_grad=True)
x.register_hook(print)
""",
    sources=("`torch/_tensor.py`, `Tensor.register_hook`",),
    check=check,
)
