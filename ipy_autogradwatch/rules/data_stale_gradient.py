"""AGW108 data-stale-gradient: a new shape under a tensor that has a gradient of the old one."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._data import Sharper, finding, sharper_lines, stale_gradients
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed


def check(record: CellRecord) -> Iterator[Finding]:
    for line in sharper_lines(record, Sharper.STALE_GRADIENT):
        access = line.access
        names = stale_gradients(record, access)
        new, old = access.assigned, access.replaced
        assert new is not None
        assert old is not None
        change = (
            f"{old.shape} → {new.shape}" if old.shape != new.shape else f"{old.dtype} → {new.dtype}"
        )
        yield finding(
            RULE,
            line,
            headline=f"{listed(names)} {change}, and `.grad` is still the old one: the next "
            "backward fails",
            why="Backward adds to the gradient that is there, and the two do not fit. An optimizer's "
            "state is of the old kind as well.",
            instead=f"{access.site.receiver} = torch.nn.Parameter(…)    # and a new optimizer",
        )


RULE = Rule(
    code="AGW108",
    name="data-stale-gradient",
    severity=Severity.RISKY,
    summary="`x.data = y` gives a tensor another shape or dtype, and its gradient keeps the old.",
    why=(
        "`.data =` exchanges what is under a tensor and leaves its `.grad` and an optimizer's state\n"
        "as they were. PyTorch accepts that in silence. The next backward adds a gradient of the\n"
        "new shape to one of the old shape, and raises far away from this line."
    ),
    bad="""\
import torch
w = torch.ones(4, requires_grad=True)
(w * w).sum().backward()
w.data = torch.ones(3)
""",
    good="""\
import torch
w = torch.ones(4, requires_grad=True)
(w * w).sum().backward()
w = torch.ones(3, requires_grad=True)
""",
    near_miss="""\
import torch
w = torch.ones(4, requires_grad=True)
(w * w).sum().backward()
w.data = torch.ones(3)
w.grad = None      # cleared: nothing old is left
""",
    sources=("<https://github.com/pytorch/pytorch/issues/33941>",),
    check=check,
)
