"""AGW501 gradient-proved-wrong: delivered is not the derivative, because of a line."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._verdict import finding, leaves, shares, wrong_by_place

_INSTEAD = {
    "write": "a new tensor, as b = b.clamp(…); or write after backward",
    "outside": "a copy for numpy: .detach().numpy().copy()",
}
_UNSEEN = "because `.data` is not recorded"
_UNCOUNTED = "because an array shares memory with its tensor, and counts no writes"


def check(record: CellRecord) -> Iterator[Finding]:
    # The watch saw this one itself, and explains it better.
    explained = {(d.site.cell, d.site.span.line) for d in record.damages}
    for place, verdicts in wrong_by_place(record, *_INSTEAD):
        if place in explained:
            continue
        verdict = verdicts[0]
        names = listed(leaves(verdicts))
        found = finding(
            RULE,
            record,
            place,
            verdicts,
            headline=f"because of this line the gradient of {names} is not the derivative of "
            f"`{verdict.root}`",
            why=f"Proved by running the cell's operations again: {verdict.reason}. No error says "
            f"so, {_UNCOUNTED if verdict.cause == 'outside' else _UNSEEN}.",
            instead=_INSTEAD[verdict.cause],
            more=shares(verdict),
        )
        if found is not None:
            yield found


RULE = Rule(
    code="AGW501",
    name="gradient-proved-wrong",
    severity=Severity.WRONG,
    summary="A gradient was proved not to be the derivative of what was computed.",
    why=(
        "Under `%%gradcheck` the operations of a cell are recorded, and run again in double precision,\n"
        "with what autograd did not see put back. The gradient of that run is the derivative\n"
        "of the number that the cell computed. Where the delivered gradient is another one, the\n"
        "line is named whose undoing takes the difference away."
    ),
    bad="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()
loss = y.sum()
shown = y.detach().numpy()
shown /= shown.sum()      # shares memory with y, which backward needs
loss.backward()
""",
    good="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()
loss = y.sum()
shown = y.detach().numpy().copy()
shown /= shown.sum()
loss.backward()
""",
    near_miss="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()
loss = y.sum()
loss.backward()
shown = y.detach().numpy()
shown /= shown.sum()      # after backward, nobody needs y
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>",),
    check=check,
)
