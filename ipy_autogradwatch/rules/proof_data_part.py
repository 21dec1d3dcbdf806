"""AGW504 data-part: a part of a loss goes through .data, and gives no gradient."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._verdict import finding, leaves, shares, wrong_by_place


def check(record: CellRecord) -> Iterator[Finding]:
    for place, verdicts in wrong_by_place(record, "data"):
        verdict = verdicts[0]
        found = finding(
            RULE,
            record,
            place,
            verdicts,
            headline=f"without this line's `.data` the gradient of {listed(leaves(verdicts))} "
            f"would be another: that of all of `{verdict.root}`",
            why="The value is in the loss, and its gradient is not. Right for a target or a "
            "straight-through estimator; else a part of the loss trains nothing, and no error "
            "says so.",
            instead=".detach(), which says that it is meant; or the tensor itself",
            more=shares(verdict),
        )
        if found is not None:
            yield found


RULE = Rule(
    code="AGW504",
    name="data-part-without-gradient",
    severity=Severity.NOTE,
    summary="A leaf gets the gradient of a part of the loss: the rest goes through `.data`.",
    why=(
        "Under `%%gradcheck` the verdict is `wrong`, for the delivered gradient is not the\n"
        "derivative of the number that was computed. Whether that is a fault, only the author\n"
        "knows: old programs write `.data` where `.detach()` is meant. Write `.detach()`, and the\n"
        "verdict is `by_design`."
    ),
    bad="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x ** 2
loss = (y.data * x).sum()
loss.backward()
""",
    good="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x ** 2
loss = (y * x).sum()
loss.backward()
""",
    near_miss="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x ** 2
loss = (y.detach() * x).sum()      # says that no gradient is wanted here
loss.backward()
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html>",),
    check=check,
)
