"""AGW414 gradient-of-wrong-shape: a gradient was given that does not fit its tensor."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = (
    r"Mismatch in shape: grad_output|attempting to assign a gradient of|assigned grad has data of a different (size|type)"
    r"|The shape of a grad|gradient argument.*(shape|size)"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(failed.statement, "backward", "grad")
    yield finding(
        RULE,
        failed,
        headline=f"the gradient given for `{text or failed.line_text}` has not its shape, dtype or device",
        why="A gradient has a number for each element of its tensor, and is not broadcast.",
        evidence=(("error", " ".join(failed.match.string.split())[:160]),),
        instead=f"torch.ones_like({text or 'y'}), or weights of that shape",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW414",
    name="gradient-of-wrong-shape",
    severity=Severity.WRONG,
    summary="A gradient of another shape, dtype or device than its tensor was given.",
    why=(
        "A gradient has one number for each element of its tensor. `backward(gradient)` wants that for\n"
        "the root, and `x.grad = g` for x; nothing is broadcast."
    ),
    bad="""\
import torch
x = torch.ones(3, requires_grad=True)
y = x * 2
y.backward(torch.ones(2))
""",
    good="""\
import torch
x = torch.ones(3, requires_grad=True)
y = x * 2
y.backward(torch.ones(3))
""",
    near_miss="""\
import torch
x = torch.ones(3, requires_grad=True)
y = (x * 2).sum()
y.backward(torch.tensor(1.0))
""",
    sources=("`torch/autograd/__init__.py`, `_make_grads`",),
    check=check,
)
