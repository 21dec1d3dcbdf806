"""What the ``.data`` rules share: what an access did, and one finding a line."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipy_autogradwatch.model import (
    CellRecord,
    DataAccess,
    Finding,
    Site,
    SiteKind,
    TensorFacts,
)
from ipy_autogradwatch.rules._site import finding_at

if TYPE_CHECKING:
    from ipy_autogradwatch.rules._rule import Rule

_RE_POINTING = (".set_", ".resize_", ".resize_as_")
_SHARPEST_FIRST = (SiteKind.ASSIGN, SiteKind.UPDATE, SiteKind.CARRY, SiteKind.READ)

MAX_READ = 100


@dataclass(frozen=True, slots=True)
class DataLine:
    """A line of source whose ``.data`` met a tensor.

    Attributes:
        kind: What its sharpest access did.
        access: That access.
        others: The other accesses of the line.
        statement: All accesses of its statement, which may go over several lines; those of
            the line itself first.
        is_early: It is one of the first `MAX_READ` lines of the cell, whose statements are
            read to be suggested anew; that takes a fifth of a millisecond each.
    """

    kind: SiteKind
    access: DataAccess
    others: tuple[DataAccess, ...]
    statement: tuple[DataAccess, ...]
    is_early: bool = True


def data_lines(record: CellRecord, kind: SiteKind) -> Iterator[DataLine]:
    """Yield the lines of *record* whose sharpest access is of *kind*, and no more is known.

    So a line gets one finding of the family, however many ``.data`` stand in it.
    """
    for line, sharper in _told_apart(record):
        if line.kind is kind and sharper is None:
            yield line


def sharper_lines(record: CellRecord, sharper: Sharper) -> Iterator[DataLine]:
    """Yield the lines of which *sharper* is what there is to say."""
    for line, known in _told_apart(record):
        if known is sharper:
            yield line


class Sharper(enum.Enum):
    """What a sharper rule than "read, written, assigned, carried on" says of a line."""

    DAMAGE = "a gradient is wrong because of it"
    NO_EFFECT = "it changes a temporary tensor"
    STALE_GRADIENT = "the gradient has the old shape"
    STALE_VIEW = "a view has the old memory"


def _told_apart(record: CellRecord) -> Iterator[tuple[DataLine, Sharper | None]]:
    damaged = {place_of(damage.site) for damage in record.damages}
    for line in _lines(record):
        if place_of(line.access.site) in damaged:
            yield line, Sharper.DAMAGE
        elif no_effect(line):
            yield line, Sharper.NO_EFFECT
        elif line.kind is SiteKind.ASSIGN and stale_gradients(record, line.access):
            yield line, Sharper.STALE_GRADIENT
        elif line.kind is SiteKind.ASSIGN and stale_views(record, line.access):
            yield line, Sharper.STALE_VIEW
        else:
            yield line, None


def stale_gradients(record: CellRecord, access: DataAccess) -> tuple[str, ...]:
    """Return the assigned tensors that still have a gradient of another shape or dtype."""
    new, old = access.assigned, access.replaced
    if new is None or old is None or (new.shape, new.dtype) == (old.shape, old.dtype):
        return ()
    states = [(name, record.after.get(name)) for name in access.names]
    return tuple(
        name
        for name, state in states
        if state is not None
        and state.shape == new.shape
        and state.grad is not None
        and state.grad.number in access.gradients
    )


def stale_views(record: CellRecord, access: DataAccess) -> tuple[str, ...]:
    """Return the named views of the assigned tensors that are on the memory of before."""
    bases = {
        state.identity: state.storage
        for name in access.names
        if (state := record.after.get(name)) is not None and state.storage is not None
    }
    return tuple(
        name
        for name, state in record.after.items()
        if state.base in bases and state.storage not in (None, bases[state.base])
    )


def _lines(record: CellRecord) -> Iterator[DataLine]:
    lines: dict[tuple[object, ...], list[DataAccess]] = {}
    statements: dict[tuple[object, ...], list[DataAccess]] = {}
    for access in record.accesses:
        site = access.site
        lines.setdefault(place_of(site), []).append(access)
        if "\n" in site.statement:
            statements.setdefault((site.cell, site.file, site.statement), []).append(access)
    for index, accesses in enumerate(lines.values()):
        ranked = sorted(accesses, key=lambda access: _SHARPEST_FIRST.index(kind_of(access)))
        site = ranked[0].site
        same = statements.get((site.cell, site.file, site.statement), [])
        height = site.statement.count("\n")
        near = [a for a in same if 0 < abs(a.site.span.line - site.span.line) <= height]
        around = (*ranked, *near)
        others = tuple(ranked[1:])
        yield DataLine(kind_of(ranked[0]), ranked[0], others, around, index < MAX_READ)


def place_of(site: Site) -> tuple[int | None, str | None, int]:
    """Return the cell, file and line of *site*."""
    return site.cell, site.file, site.span.line


def no_effect(line: DataLine) -> bool:
    """Whether the line is ``x.data.set_(y)`` or ``x.data.resize_(n)``, and drops the result.

    Both re-point the tensor that ``.data`` returned, a temporary one, and leave x as it was.
    """
    site = line.access.site
    if site.consumer not in _RE_POINTING:
        return False
    return (
        re.match(rf"{re.escape(site.receiver)}\s*\.data\s*\{site.consumer}\s*\(", site.statement)
        is not None
    )


def kind_of(access: DataAccess) -> SiteKind:
    """Return what *access* did: what was seen at run time goes before what the source says."""
    said = access.site.kind
    if said in (SiteKind.ASSIGN, SiteKind.DELETE):
        return SiteKind.ASSIGN
    if access.written:
        return SiteKind.UPDATE
    if said is SiteKind.UPDATE and (not access.counted or "numpy" in access.site.consumer):
        return SiteKind.UPDATE
    if said is SiteKind.CARRY and access.any_in_graph:
        return SiteKind.CARRY
    return SiteKind.READ


def finding(rule: Rule, line: DataLine, *, headline: str, why: str, instead: str) -> Finding:
    """Return the finding of *rule* for *line*."""
    access = line.access
    names = [name for a in (access, *line.others) for name in a.names]
    return finding_at(
        rule,
        access.site,
        headline=headline,
        evidence=_evidence(line),
        why=why,
        instead=instead,
        variables=tuple(dict.fromkeys(names)),
        hits=access.hits,
    )


def _evidence(line: DataLine) -> tuple[tuple[str, str], ...]:
    access = line.access
    pairs = [("tensor", describe(access.tensor))]
    if access.names and access.names != (access.site.receiver,):
        names = ", ".join(f"`{name}`" for name in access.names[:4])
        pairs.append(("here it is", names + (" …" if len(access.names) > 4 else "")))
    if access.hits > 1:
        pairs.append(("times in this cell", f"{access.hits:,}"))
    if line.others:
        others = dict.fromkeys(f"`{other.site.receiver}.data`" for other in line.others)
        pairs.append(("also on this line", ", ".join(others)))
    return tuple(pairs)


def describe(tensor: TensorFacts) -> str:
    """Return *tensor* in a few words: ``(3, 4) float32 leaf, requires grad``."""
    words = ["no shape yet" if tensor.shape is None else str(tensor.shape), tensor.dtype]
    if tensor.device != "cpu":
        words.append(tensor.device)
    if tensor.grad_fn is not None:
        words.append(f"computed by {tensor.grad_fn}")
    elif tensor.requires_grad:
        words.append("a leaf that requires grad")
    else:
        words.append("without a graph")
    return ", ".join(words)


def times(access: DataAccess) -> str:
    """Return `` (10 times)``, or nothing for a single hit."""
    return f" ({access.hits:,} times)" if access.hits > 1 else ""
