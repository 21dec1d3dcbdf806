"""AGW107 data-no-effect: ``x.data.set_(y)`` changes a temporary tensor and not x."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._data import Sharper, finding, sharper_lines
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    for line in sharper_lines(record, Sharper.NO_EFFECT):
        site = line.access.site
        yield finding(
            RULE,
            line,
            headline=f"`{site.receiver}` is not changed by `.data{site.consumer}()`",
            why=(
                "`.data` returns a new tensor object on the same memory. This call points that "
                f"object elsewhere, it is dropped at once, and `{site.receiver}` is as it was."
            ),
            instead=f"with torch.no_grad(): {site.receiver}.copy_(…)",
        )


RULE = Rule(
    code="AGW107",
    name="data-no-effect",
    severity=Severity.RISKY,
    summary="`x.data.set_(y)` and `x.data.resize_(n)` change a temporary tensor and not x.",
    why=(
        "A write into the elements of `x.data` reaches `x`, because both share their memory.\n"
        "`set_` and `resize_` do not write elements: they point the tensor object that `.data`\n"
        "has just returned at other memory. PyTorch once refused this with an error; since it\n"
        "no longer does, the statement does nothing at all."
    ),
    bad="""\
import torch
w = torch.nn.Parameter(torch.randn(2, 2))
w.data.set_(torch.eye(2))      # w keeps its random values
""",
    good="""\
import torch
w = torch.nn.Parameter(torch.randn(2, 2))
with torch.no_grad():
    w.copy_(torch.eye(2))
""",
    near_miss="""\
import torch
w = torch.nn.Parameter(torch.randn(2, 2))
w.data.copy_(torch.eye(2))     # this one writes elements, and reaches w
""",
    sources=("<https://github.com/jiesutd/LatticeLSTM/issues/128>",),
    check=check,
)
