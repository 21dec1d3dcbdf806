"""AGW104 data-carried: a value without its graph goes on into a computation."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, DataAccess, Finding, Severity, SiteKind
from ipy_autogradwatch.rules._data import data_lines, finding, times
from ipy_autogradwatch.rules._instead import instead_of_read
from ipy_autogradwatch.rules._rule import Rule

_NEW_LEAF = (".requires_grad_", ".requires_grad")
_LONGEST_CONSUMER = 20
_LONGEST_RECEIVER = 8


def check(record: CellRecord) -> Iterator[Finding]:
    for line in data_lines(record, SiteKind.CARRY):
        access = line.access
        receiver = access.site.receiver
        yield finding(
            RULE,
            line,
            headline=f"`{receiver}.data` {_where(access)}{times(access)}",
            why=_why(access),
            instead=instead_of_read(line),
        )


def _where(access: DataAccess) -> str:
    consumer, receiver = access.site.consumer, access.site.receiver
    if consumer in _NEW_LEAF:
        graph = "its graph" if len(receiver) > _LONGEST_RECEIVER else f"the graph of `{receiver}`"
        return f"becomes a new leaf without {graph}"
    if consumer == "return":
        return "is returned without its graph"
    if len(consumer) > _LONGEST_CONSUMER:
        consumer = "" if "," in consumer else consumer.rpartition(".")[2]
    if not consumer or consumer == "for":
        return "goes on without its graph"
    return f"goes into `{consumer}` without its graph"


def _why(access: DataAccess) -> str:
    receiver = access.site.receiver
    if access.site.consumer in _NEW_LEAF:
        return f"Backward ends at the new leaf: it gets a gradient, and `{receiver}` gets none."
    return (
        f"What is computed from it gives no gradient to `{receiver}`: right for a metric, a "
        "target or a carried state; in a loss, that part trains nothing."
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
