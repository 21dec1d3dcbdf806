"""AGW104 data-carried: a value without its graph goes on into a computation."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity, SiteKind
from ipy_autogradwatch.rules._data import data_lines, finding, times
from ipy_autogradwatch.rules._instead import instead_of_read
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    for line in data_lines(record, SiteKind.CARRY):
        access = line.access
        receiver, consumer = access.site.receiver, access.site.consumer
        if consumer == "return":
            where = "is returned"
        else:
            where = f"goes on into `{consumer}`" if consumer else "goes on"
        yield finding(
            RULE,
            line,
            headline=f"`{receiver}.data` {where} without its graph{times(access)}",
            why=(
                f"What is computed from it gives no gradient to `{receiver}`: right for a metric, a "
                "target or a carried state; in a loss, that part trains nothing."
            ),
            instead=instead_of_read(line),
        )


RULE = Rule(
    code="AGW104",
    name="data-carried",
    severity=Severity.NOTE,
    summary="A value taken through `.data` enters a computation, a container or a return.",
    why=(
        "The tensor that `.data` returns has no graph. Whatever is computed from it is a constant\n"
        "to autograd, and no error says so as long as another part of the loss is connected.\n"
        "That is wanted for predictions, targets and a state carried to the next chunk. It also\n"
        "shares memory with the original: kept as a snapshot, it changes when the original does."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
target = w.data * 2
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
target = w.detach() * 2
""",
    near_miss="""\
from torch import nn
from torch.nn.utils.rnn import pack_sequence
import torch
packed = pack_sequence([torch.ones(2, requires_grad=True)])
loss = packed.data.sum()      # PackedSequence.data is a field, and has its graph
loss.backward()
""",
    sources=(
        "<https://pytorch.org/blog/pytorch-0_4_0-migration-guide/#what-about-data>",
        "<https://pytorch.org/docs/stable/generated/torch.Tensor.detach.html>",
    ),
    check=check,
)
