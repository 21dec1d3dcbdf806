"""AGW109 data-stale-view: a view keeps the memory that ``.data =`` has taken away."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._data import Sharper, finding, sharper_lines, stale_views
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed


def check(record: CellRecord) -> Iterator[Finding]:
    for line in sharper_lines(record, Sharper.STALE_VIEW):
        access = line.access
        views = stale_views(record, access)
        receiver = access.site.receiver
        yield finding(
            RULE,
            line,
            headline=f"{listed(views)} still {'shows' if len(views) == 1 else 'show'} the old "
            f"memory of `{receiver}`",
            why=f"A view is tied to memory, and `.data =` has put other memory under `{receiver}`. "
            f"Values come from the old one; gradients go to `{receiver}`.",
            instead=f"with torch.no_grad(): {receiver}.copy_(…)    # in place: views follow",
        )


RULE = Rule(
    code="AGW109",
    name="data-stale-view",
    severity=Severity.RISKY,
    summary="A view that was made before `x.data = y` stays on the old memory of x.",
    why=(
        "`w.view(-1)` shares the memory of `w`. After `w.data = y` the two are apart: the view has\n"
        "the old values and still the old graph, so a loss computed from it gives `w` a gradient\n"
        "at values that `w` no longer has. A write in place keeps them together."
    ),
    bad="""\
import torch
w = torch.ones(2, 2, requires_grad=True)
flat = w.view(-1)
w.data = torch.zeros(2, 2)
""",
    good="""\
import torch
w = torch.ones(2, 2, requires_grad=True)
flat = w.view(-1)
with torch.no_grad():
    w.zero_()
""",
    near_miss="""\
import torch
w = torch.ones(2, 2, requires_grad=True)
w.data = torch.zeros(2, 2)
flat = w.view(-1)      # made afterwards
""",
    sources=("<https://github.com/pytorch/pytorch/issues/7844>",),
    check=check,
)
