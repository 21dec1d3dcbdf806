"""AGW101 data-read: values are looked at through ``.data``. Harmless."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, DataAccess, Finding, Severity, SiteKind
from ipy_autogradwatch.rules._data import data_lines, finding, times
from ipy_autogradwatch.rules._instead import instead_of_read
from ipy_autogradwatch.rules._rule import Rule

_ARRAYS = (".numpy", "np.asarray", "numpy.asarray")
_KEEPS = re.compile(r"(return|yield)\b|[^=(]*=[^=]")
"""An assignment or a return: its array may live on, unlike that of ``print(x.data.numpy())``."""


def check(record: CellRecord) -> Iterator[Finding]:
    for line in data_lines(record, SiteKind.READ):
        access = line.access
        only = "" if _is_kept_as_array(access) else "only "
        yield finding(
            RULE,
            line,
            headline=f"`{access.site.receiver}.data` is {only}read{times(access)}",
            why=_why(access),
            instead=instead_of_read(line),
        )


def _why(access: DataAccess) -> str:
    if _is_kept_as_array(access):
        return "Harmless while nobody writes into the array: no version counter sees that."
    if access.any_in_graph:
        return "Harmless: looking at values freezes nothing and cuts nothing."
    if access.is_gradient:
        return "Harmless: a gradient has no graph, and `.grad` alone says the same."
    return "Harmless: this tensor has no graph, so `.data` changes nothing."


def _is_kept_as_array(access: DataAccess) -> bool:
    """Whether the statement may keep an array on the memory of the tensor."""
    consumer = access.site.consumer
    return consumer in _ARRAYS and _KEEPS.match(access.site.statement) is not None


RULE = Rule(
    code="AGW101",
    name="data-read",
    severity=Severity.NOTE,
    summary="Values are looked at through `.data`: printed, logged, compared, made into numpy.",
    why=(
        "Reading through `.data` is harmless. The tensor keeps its graph, its gradient and its\n"
        "training: printing a weight does not freeze it. `.data` is the spelling of 2017;\n"
        "`.detach()` gives the same values on the same memory, and a write through it is\n"
        "noticed by backward, which a write through `.data` is not."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
print(w.data)
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
print(w.detach())
""",
    near_miss="""\
import torch
from types import SimpleNamespace
batch = SimpleNamespace(data=torch.ones(2, requires_grad=True))
print(batch.data)      # a field of an object, not Tensor.data
""",
    sources=(
        "<https://pytorch.org/blog/pytorch-0_4_0-migration-guide/#what-about-data>",
        "`torch/csrc/autograd/variable.cpp`, `VariableHooks::variable_data`",
    ),
    check=check,
)
