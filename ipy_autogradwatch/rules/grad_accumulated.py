"""AGW301 gradient-not-cleared: backward adds to the gradient of an earlier step."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import finding_at, listed


def check(record: CellRecord) -> Iterator[Finding]:
    said: set[str] = set()
    for call in record.backwards:
        place = call.site.cell, call.site.span.line
        if not set(call.uncleared) - said or place in record.error_at[-1:]:
            continue
        said.update(call.uncleared)
        verb = "has" if len(call.uncleared) == 1 else "have"
        yield finding_at(
            RULE,
            call.site,
            headline=f"{listed(call.uncleared)} still {verb} the gradient of the step before: "
            "this backward adds to it",
            why="Backward never clears `.grad`. After an update the old gradient is that of other "
            "weights, and the sum is the gradient of nothing.",
            instead="optimizer.zero_grad() before this backward (or w.grad = None)",
            evidence=(
                ("cleared since the update", "no: the same tensor, written by backward only"),
            ),
            variables=call.uncleared,
            hits=call.hits,
        )


RULE = Rule(
    code="AGW301",
    name="gradient-not-cleared",
    severity=Severity.WRONG,
    summary="Backward adds to a gradient that is left over from the step before.",
    why=(
        "`.grad` is a sum over all backwards since it was cleared. That is wanted when several\n"
        "batches make one step. When the weights were updated in between and nothing cleared\n"
        "the gradient, old and new are added up, and training goes astray without an error.\n"
        "Cells that are run twice do the same to a single backward."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    w.grad = None
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
for step in range(6):
    (w * w).sum().backward()
    if step % 3 == 2:      # one update for three batches
        with torch.no_grad():
            w -= 0.1 * w.grad / 3
        w.grad = None
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html>",),
    check=check,
)
