"""AGW102 data-update: a tensor is written through ``.data``."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, DataAccess, Finding, Severity, SiteKind
from ipy_autogradwatch.rules._data import data_lines, finding, times
from ipy_autogradwatch.rules._instead_update import instead_of_update
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    for line in data_lines(record, SiteKind.UPDATE):
        access = line.access
        yield finding(
            RULE,
            line,
            headline=f"`{access.site.receiver}` is written through `.data`{times(access)}",
            why=_why(access),
            instead=instead_of_update(line, record),
        )


def _why(access: DataAccess) -> str:
    if not access.any_in_graph:
        if access.is_gradient:
            return "A gradient has no graph: harmless, and `.grad` alone does the same."
        return "This tensor has no graph: harmless, and the tensor itself can be written."
    return (
        "Autograd has no record of this write, and its version counter does not move: harmless "
        "while no graph that is still to run has saved the old values."
    )


RULE = Rule(
    code="AGW102",
    name="data-update",
    severity=Severity.NOTE,
    summary="A tensor is written in place through `.data`, in whatever spelling.",
    why=(
        "Autograd compares version counters to notice that a saved tensor was changed before\n"
        "backward. The tensor that `.data` returns has a counter of its own, so a write through\n"
        "it leaves the original's alone. At initialisation and after an optimiser step no graph\n"
        "waits for the old values, and nothing is wrong. Between forward and backward the same\n"
        "line gives a wrong gradient without an error. Under `torch.no_grad()` the write is\n"
        "counted, and backward would refuse."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
w.data.mul_(0.5)
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
with torch.no_grad():
    w.mul_(0.5)
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
half = w.detach().clone().mul_(0.5)      # a write into a copy
""",
    sources=(
        "<https://pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>",
        "`torch/csrc/autograd/saved_variable.cpp`, `SavedVariable::unpack`",
    ),
    check=check,
)
