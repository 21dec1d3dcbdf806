"""AGW402 leaf-changed-in-place: an in-place operation on a leaf, with gradients on."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import in_place_targets


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(
        record, r"a (view of a )?leaf Variable that requires grad is being used in an in-place"
    )
    if failed is None:
        return
    names = in_place_targets(failed.statement.node) if failed.statement else frozenset()
    who = ", ".join(f"`{name}`" for name in sorted(names)) or "a leaf"
    text = failed.program.text(failed.cell, failed.line).strip()
    yield finding(
        RULE,
        failed,
        headline=f"{who} requires grad and is changed in place with gradients on",
        why="A leaf has no node that could record the change. An update of weights is no part of "
        "the function: do it where nothing is recorded. `.data` would only hide it.",
        evidence=(("raised by", "this line"),),
        instead=f"with torch.no_grad(): {text}"
        if text and len(text) < 80
        else "with torch.no_grad(): …",
    )


RULE = Rule(
    code="AGW402",
    name="leaf-changed-in-place",
    severity=Severity.WRONG,
    summary="A leaf that requires grad, or a view of one, is changed in place with gradients on.",
    why=(
        '"a leaf Variable that requires grad is being used in an in-place operation": a leaf is\n'
        "where gradients end, so nothing can stand behind it. An update belongs under\n"
        "`torch.no_grad()`, where it is counted by the version counter and not recorded."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
w -= 0.1 * w.grad
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
with torch.no_grad():
    w -= 0.1 * w.grad
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
h = w * 1
h += 1      # not a leaf: recorded
h.sum().backward()
""",
    sources=("`torch/csrc/autograd/VariableTypeUtils.h`, `check_inplace`",),
    check=check,
)
