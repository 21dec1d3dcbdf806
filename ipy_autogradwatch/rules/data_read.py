"""AGW101 data-read: values are looked at through ``.data``. Harmless."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity, SiteKind
from ipy_autogradwatch.rules._data import data_lines, finding, times
from ipy_autogradwatch.rules._instead import instead_of_read
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    for line in data_lines(record, SiteKind.READ):
        access = line.access
        if access.is_gradient:
            why = "Harmless: a gradient has no graph, and `.grad` alone says the same."
        elif not access.any_in_graph:
            why = "Harmless: this tensor has no graph, so `.data` changes nothing."
        else:
            why = "Harmless: looking at values freezes nothing and cuts nothing."
        yield finding(
            RULE,
            line,
            headline=f"`{access.site.receiver}.data` is only read{times(access)}",
            why=why,
            instead=instead_of_read(line),
        )


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
