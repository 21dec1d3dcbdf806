"""AGW409 deepcopy-of-result: a result of an operation was deep-copied."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule

_RAISED = (
    r"Only Tensors created explicitly by the user \(graph leaves\) support the deepcopy protocol"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(failed.statement, "deepcopy", "copy")
    yield finding(
        RULE,
        failed,
        headline=f"`{text or failed.line_text}` is, or holds, a result with a graph, and a graph is not copied",
        why="deepcopy goes through all that an object holds. A leaf can be copied, a result cannot.",
        evidence=(("raised by", "this line"),),
        instead="h.detach().clone() for a value; detach what a module keeps before it is copied",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW409",
    name="deepcopy-of-result",
    severity=Severity.WRONG,
    summary="A tensor with a graph, or an object that holds one, was deep-copied.",
    why=(
        "A copy would need a copy of the graph behind it, and PyTorch makes none. A module is deep-copied\n"
        "with all it holds: one result kept as an attribute (a hidden state, a last loss) is enough."
    ),
    bad="""\
import copy
import torch
x = torch.ones(3, requires_grad=True)
h = x * 2
kept = copy.deepcopy(h)
""",
    good="""\
import copy
import torch
x = torch.ones(3, requires_grad=True)
h = x * 2
kept = h.detach().clone()
""",
    near_miss="""\
import copy
import torch
x = torch.ones(3, requires_grad=True)
kept = copy.deepcopy(x)      # a leaf
""",
    sources=("`torch/_tensor.py`, `Tensor.__deepcopy__`",),
    check=check,
)
