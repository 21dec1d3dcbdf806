"""AGW103 data-assign: other memory is put under a tensor."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, DataAccess, Finding, Severity, SiteKind
from ipy_autogradwatch.rules._data import data_lines, finding, times
from ipy_autogradwatch.rules._instead_assign import instead_of_assign, instead_of_delete
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    for line in data_lines(record, SiteKind.ASSIGN):
        access = line.access
        receiver = access.site.receiver
        if access.site.kind is SiteKind.DELETE:
            yield finding(
                RULE,
                line,
                headline=f"`{receiver}.data` cannot be deleted",
                why="Every tensor has its data; to free memory, delete the tensor.",
                instead=instead_of_delete(line),
            )
            continue
        yield finding(
            RULE,
            line,
            headline=f"`{receiver}.data` is assigned{_difference(access)}{times(access)}",
            why=(
                "Other memory under the same tensor, so an optimizer keeps it. Its views and the "
                "graphs that have saved it may keep the old memory, and no version counter moves."
            ),
            instead=instead_of_assign(line, record),
        )


def _difference(access: DataAccess) -> str:
    new, old = access.assigned, access.replaced
    if new is None or old is None:
        return ""
    pairs = [("shape", old.shape, new.shape), ("dtype", old.dtype, new.dtype)]
    pairs.append(("device", old.device, new.device))
    changed = [f"{what} {before} → {now}" for what, before, now in pairs if before != now]
    return f" ({', '.join(changed)})" if changed else ""


RULE = Rule(
    code="AGW103",
    name="data-assign",
    severity=Severity.NOTE,
    summary="Other memory is put under a tensor by `x.data = y`.",
    why=(
        "Assignment to `.data` swaps what is under a tensor and leaves the object in place. The\n"
        "version counter does not move. An operation that saved the tensor itself reads the new\n"
        "values in backward; one that saved a view of it keeps the old ones. A gradient and an\n"
        "optimizer's state of the old shape stay as they were, so a new shape fails at the next\n"
        "backward. And `x.data = y.data` makes two tensors share one memory."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
w.data = torch.zeros(2)
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
with torch.no_grad():
    w.copy_(torch.zeros(2))
""",
    near_miss="""\
import torch
class Value:
    def __init__(self, data):
        self.data = data      # an attribute of an object of your own
v = Value(torch.ones(2))
v.data = torch.zeros(2)
""",
    sources=(
        "`torch/csrc/autograd/variable.cpp`, `VariableHooks::set_data`",
        "<https://github.com/pytorch/pytorch/issues/33941>",
    ),
    check=check,
)
