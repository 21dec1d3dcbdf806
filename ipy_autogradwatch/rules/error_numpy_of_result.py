"""AGW408 numpy-of-connected-tensor: a tensor that requires grad was handed to numpy."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = r"Can't call numpy\(\) on Tensor that requires grad"


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(
        failed.statement,
        "numpy",
        "asarray",
        "array",
        "__array__",
        "plot",
        "scatter",
        "imshow",
        "hist",
    )
    yield finding(
        RULE,
        failed,
        headline=f"`{text or failed.line_text}` requires grad, and an array has no gradient",
        why="What numpy computes from it is a constant to autograd. PyTorch wants to be told that this is meant.",
        evidence=(("raised by", "this line"),),
        instead=f"{text or 'x'}.detach().numpy() to look at values or to plot; PyTorch's own functions in a loss",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW408",
    name="numpy-of-connected-tensor",
    severity=Severity.WRONG,
    summary="A tensor that requires grad was to become an array.",
    why=(
        "Numpy knows nothing of gradients: what it computes would be missing in the graph, so PyTorch\n"
        "asks you to say that it is meant. `.detach().numpy()` shares memory with the tensor; to write\n"
        "into the array, copy it."
    ),
    bad="""\
import torch
x = torch.ones(3, requires_grad=True)
y = x * 2
a = y.numpy()
""",
    good="""\
import torch
x = torch.ones(3, requires_grad=True)
y = x * 2
a = y.detach().numpy()
""",
    near_miss="""\
import torch
x = torch.ones(3)
y = x * 2
a = y.numpy()
""",
    sources=("`torch/csrc/utils/tensor_numpy.cpp`, `tensor_to_numpy`",),
    check=check,
)
