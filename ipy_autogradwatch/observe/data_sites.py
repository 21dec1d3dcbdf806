"""What happened at the ``.data`` of a cell."""

from __future__ import annotations

from typing import Any

import torch

from ipy_autogradwatch.model import DataAccess, Site, SiteKind, TensorFacts
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.snapshot import Snapshot
from ipy_autogradwatch.observe.tensor_facts import grad, is_lazy, metadata_only, tensor_facts
from ipy_autogradwatch.observe.version_counter import counter_of
from ipy_autogradwatch.observe.writes import Write, Writes, describe_write

LOOKS = 5
"""Hits of a site that are looked at one by one."""
MAX_SITES = 2000

_Constant = tuple[Any, ...]


class DataHits:
    """One ``.data`` site, while the cell runs."""

    __slots__ = (
        "any_in_graph",
        "assigned",
        "awaits_value",
        "constant",
        "counters",
        "expects_alias",
        "first",
        "gradients",
        "hits",
        "lazy",
        "next_look",
        "numbers",
        "replaced",
        "write",
        "written",
    )

    def __init__(self, constant: _Constant) -> None:
        self.constant = constant  # Keeps it, so that its id stays its own.
        self.hits = 0
        self.next_look = 1
        self.first: TensorFacts | None = None
        self.numbers: dict[int, None] = {}
        self.counters: list[tuple[torch.Tensor, int]] = []
        self.expects_alias = False
        self.awaits_value: TensorFacts | None = None
        self.written = False
        self.any_in_graph = False
        self.lazy = False
        self.gradients: dict[int, None] = {}
        self.assigned: TensorFacts | None = None
        self.replaced: TensorFacts | None = None
        self.write: Write | None = None

    def look(self, tensor: torch.Tensor, number: int) -> TensorFacts:
        """Take note of the tensor that this hit met, and return what it is."""
        facts = tensor_facts(tensor)
        if self.first is None:
            self.first = facts
        self.any_in_graph = self.any_in_graph or facts.in_graph
        self.lazy = self.lazy or is_lazy(tensor)
        if len(self.numbers) < LOOKS:
            self.numbers[number] = None
        return facts

    def assign(self, value: TensorFacts, facts: TensorFacts) -> None:
        """Take note of an assignment; the first that changes shape, dtype or device is kept."""
        if (
            self.assigned is None
            or self.replaced is None
            or not _differ(self.assigned, self.replaced)
        ):
            self.assigned, self.replaced = value, facts

    def watch(self, counter: torch.Tensor) -> None:
        """Follow the version counter of a tensor that this ``.data`` returned."""
        if len(self.counters) > 2 * LOOKS:
            del self.counters[LOOKS]
        self.counters.append((counter, counter._version))

    def was_written(self) -> bool:
        """Whether a tensor that this ``.data`` returned was written."""
        if not self.written and self.counters:
            with metadata_only():
                self.written = any(c._version > start for c, start in self.counters)
        return self.written


class DataSites:
    """The ``.data`` sites of one cell; each part of a site has its method."""

    def __init__(self, identities: Identities, writes: Writes) -> None:
        self.hits: dict[int, DataHits] = {}
        self.too_many = False
        self._identities = identities
        self._writes = writes
        self._values: dict[int, TensorFacts] = {}

    def receiver(self, tensor: torch.Tensor, site: _Constant) -> None:
        """``x`` of ``x.data``."""
        hits = self.hits.get(id(site))
        if hits is None:
            if len(self.hits) >= MAX_SITES:
                self.too_many = True
                return
            hits = self.hits[id(site)] = DataHits(site)
        hits.hits += 1
        if hits.hits >= hits.next_look:
            hits.next_look = hits.hits + 1 if hits.hits < LOOKS else 2 * hits.hits
            self._look(hits, tensor, site)

    def alias(self, tensor: torch.Tensor, site: _Constant) -> None:
        """``x.data`` itself, just read."""
        hits = self.hits.get(id(site))
        if hits is None or not hits.expects_alias:
            return
        hits.expects_alias = False
        counter = counter_of(tensor)
        write, hits.write = hits.write, None
        with metadata_only():
            if counter is not None:
                hits.watch(counter)
                if write is not None:
                    write.counter, write.counted_from = counter, counter._version
        if write is not None and (counter is not None or site[0] == SiteKind.UPDATE):
            self._writes.add(write, is_certain=site[0] == SiteKind.UPDATE)

    def value(self, tensor: torch.Tensor, site: _Constant) -> None:
        """``y`` of ``x.data = y``, before x; or of ``setattr(x, "data", y)``, after it."""
        hits = self.hits.get(id(site))
        if hits is not None and hits.awaits_value is not None:
            replaced, hits.awaits_value = hits.awaits_value, None
            with metadata_only():
                hits.assign(tensor_facts(tensor), replaced)
        elif hits is None or hits.hits + 1 >= hits.next_look:
            with metadata_only():
                self._values[id(site)] = tensor_facts(tensor)

    def accesses(self, *snapshots: Snapshot) -> tuple[DataAccess, ...]:
        """Return what each site did; names are those of *snapshots*."""
        return tuple(
            _access(hits, hits.first, snapshots)
            for hits in self.hits.values()
            if hits.first is not None
        )

    def _look(self, hits: DataHits, tensor: torch.Tensor, site: _Constant) -> None:
        with metadata_only():
            number = self._identities.number(tensor)
            facts = hits.look(tensor, number)
            if site[0] == SiteKind.ASSIGN:
                gradient = grad(tensor)
                if gradient is not None and len(hits.gradients) < LOOKS:
                    hits.gradients[self._identities.number(gradient)] = None
            self._expect_write(hits, tensor, number, site)
        hits.expects_alias = True
        value = self._values.pop(id(site), None)
        hits.awaits_value = None
        if value is not None:
            hits.assign(value, facts)
        elif site[0] == SiteKind.ASSIGN and site[6] == "setattr":
            hits.awaits_value = facts

    def _expect_write(
        self, hits: DataHits, tensor: torch.Tensor, number: int, site: _Constant
    ) -> None:
        kind, consumer = site[0], site[6]
        if kind == SiteKind.READ and consumer.startswith("."):
            return  # ``x.data.item()``: nobody keeps the alias.
        assigns = kind == SiteKind.ASSIGN
        whole = kind == SiteKind.UPDATE and consumer != "[...]"
        write = describe_write(site, tensor, number, assigns=assigns, whole=whole)
        if write is not None and (assigns or (kind == SiteKind.UPDATE and not consumer)):
            # ``x.data = y`` and ``x.data += y``: no alias comes, and the write is certain.
            self._writes.add(write, is_certain=True)
        else:
            hits.write = write


def _differ(new: TensorFacts, old: TensorFacts) -> bool:
    return (new.shape, new.dtype, new.device) != (old.shape, old.dtype, old.device)


def _access(hits: DataHits, first: TensorFacts, snapshots: tuple[Snapshot, ...]) -> DataAccess:
    site = Site.from_constant(hits.constant)
    names = [s.names[n] for n in hits.numbers for s in snapshots if n in s.names]
    return DataAccess(
        site=site,
        hits=hits.hits,
        tensor=first,
        names=tuple(dict.fromkeys(names)),
        written=hits.was_written(),
        counted=bool(hits.counters),
        any_in_graph=hits.any_in_graph,
        assigned=hits.assigned,
        replaced=hits.replaced,
        is_gradient=site.receiver.endswith(".grad"),
        is_lazy=hits.lazy,
        gradients=tuple(hits.gradients),
    )
