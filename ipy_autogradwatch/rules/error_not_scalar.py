"""AGW406 root-not-scalar: backward from more than one number, without weights."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import backward_roots, failure, finding
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, r"grad can be implicitly created only for scalar outputs")
    if failed is None:
        return
    _, text = backward_roots(failed.statement)
    root = text or "root"
    state = record.after.get(root)
    shape = f" has shape {state.shape}" if state is not None else " is more than one number"
    yield finding(
        RULE,
        failed,
        headline=f"`{root}`{shape}, and backward starts from a single number",
        why="A gradient is that of one number. For several, say how they are summed up.",
        evidence=(("shape", str(state.shape) if state is not None else "more than one element"),),
        instead=f"{root}.sum().backward(), {root}.mean().backward() or "
        f"{root}.backward(gradient=weights)",
    )


RULE = Rule(
    code="AGW406",
    name="root-not-scalar",
    severity=Severity.WRONG,
    summary="Backward was called on a tensor of several elements without a gradient for each.",
    why=(
        '"grad can be implicitly created only for scalar outputs": backward computes the product\n'
        "of a weight for each element of the root with the Jacobian. For a single number the\n"
        "weight is 1; for several it must be given, or the root reduced to one number first."
    ),
    bad="""\
import torch
x = torch.ones(2, requires_grad=True)
y = x * 3
y.backward()
""",
    good="""\
import torch
x = torch.ones(2, requires_grad=True)
y = x * 3
y.sum().backward()
""",
    near_miss="""\
import torch
x = torch.ones(2, requires_grad=True)
y = x * 3
y.backward(torch.ones(2))
""",
    sources=("`torch/autograd/__init__.py`, `_make_grads`",),
    check=check,
)
