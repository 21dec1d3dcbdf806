"""What the probes of one cell saw.

Runs in the middle of the user's cell, so it is short: the first hits of a site are looked
at, then every hit whose count is a power of two; the others are counted.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.model import BackwardCall, DataAccess, Site, SiteKind, TensorFacts
from ipy_autogradwatch.observe.graph import NOWHERE, Reach, WalkBudget, Walker
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.snapshot import Snapshot
from ipy_autogradwatch.observe.tensor_facts import (
    grad_fn,
    is_lazy,
    is_leaf,
    metadata_only,
    tensor_facts,
)

LOOKS = 8
"""Hits of a site that are looked at one by one."""
MAX_SITES = 2000
MAX_WALKS = 8
"""Graph walks of one backward site in one cell."""

_Constant = tuple[Any, ...]
_NO_STORAGE = torch.empty(0)

_sequence_nr: Any = getattr(torch.autograd, "_get_sequence_nr", None)


class DataHits:
    """One ``.data`` site, while the cell runs."""

    __slots__ = (
        "any_in_graph",
        "assigned",
        "constant",
        "counters",
        "expects_alias",
        "first",
        "hits",
        "lazy",
        "next_look",
        "numbers",
        "replaced",
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
        self.written = False
        self.any_in_graph = False
        self.lazy = False
        self.assigned: TensorFacts | None = None
        self.replaced: TensorFacts | None = None

    def was_written(self) -> bool:
        """Whether a tensor that this site's ``.data`` returned was written."""
        self.written = self.written or any(c._version > start for c, start in self.counters)
        return self.written


class _RootHits:
    """One backward site, while the cell runs."""

    __slots__ = (
        "constant",
        "cut",
        "hits",
        "last_made",
        "last_sequence",
        "leaves",
        "nodes",
        "requires_grad",
        "roots",
        "walks",
    )

    def __init__(self, constant: _Constant) -> None:
        self.constant = constant
        self.hits = 0
        self.walks = 0
        self.last_sequence = 0
        self.last_made: int | None = None
        self.roots: dict[int, None] = {}
        self.leaves: dict[int, None] = {}
        self.nodes = 0
        self.cut = False
        self.requires_grad = False


class Gathering:
    """What the probes saw while one cell ran."""

    def __init__(self, identities: Identities, budget: WalkBudget) -> None:
        self._identities = identities
        self._budget = budget
        self.data_hits: dict[int, DataHits] = {}
        self._roots: dict[int, _RootHits] = {}
        self._values: dict[int, TensorFacts] = {}
        self._foreign_functions: set[int] = set()
        self._awaits_argument: set[int] = set()
        self.too_many_sites = False

    def take(self, value: object, site: _Constant, part: int) -> None:
        """Take what a probe saw; *part* is a `Part`."""
        _PARTS[part](self, value, site)

    def receiver(self, tensor: object, site: _Constant) -> None:
        """``x`` of ``x.data``."""
        hits = self.data_hits.get(id(site))
        if hits is None:
            hits = self._new_data_hits(site)
            if hits is None:
                return
        hits.hits += 1
        if hits.hits >= hits.next_look and _is_tensor(tensor):
            hits.next_look = hits.hits + 1 if hits.hits < LOOKS else 2 * hits.hits
            self._look(hits, tensor, site)

    def alias(self, tensor: object, site: _Constant) -> None:
        """``x.data`` itself, just read."""
        hits = self.data_hits.get(id(site))
        if hits is not None and hits.expects_alias:
            hits.expects_alias = False
            if _is_tensor(tensor) and not hits.was_written():
                counter = _counter(tensor)
                if counter is not None:
                    if len(hits.counters) > 2 * LOOKS:
                        del hits.counters[LOOKS]
                    hits.counters.append((counter, counter._version))

    def value(self, tensor: object, site: _Constant) -> None:
        """``y`` of ``x.data = y``; x is evaluated next."""
        hits = self.data_hits.get(id(site))
        if (hits is None or hits.hits + 1 >= hits.next_look) and _is_tensor(tensor):
            with metadata_only():
                self._values[id(site)] = tensor_facts(tensor)

    def root(self, value: object, site: _Constant) -> None:
        """What a backward starts from."""
        if id(site) in self._foreign_functions:
            return
        if _is_tensor(value):
            self._backward([value], site)
        elif type(value) in (list, tuple):
            self._backward([tensor for tensor in value if _is_tensor(tensor)], site)  # type: ignore[attr-defined]
        else:
            # ``accelerator.backward(loss)``: the root is the argument, which comes next.
            self._awaits_argument.add(id(site))

    def argument(self, value: object, site: _Constant) -> None:
        """First argument of ``E.backward(argument)``; a root if E is no tensor."""
        if id(site) in self._awaits_argument:
            self._awaits_argument.discard(id(site))
            if _is_tensor(value):
                self._backward([value], site)

    def function(self, value: object, site: _Constant) -> None:
        """``grad`` of ``grad(outputs, inputs)``, which may be anybody's function."""
        if value is torch.autograd.grad or value is torch.autograd.backward:
            self._foreign_functions.discard(id(site))
        else:
            self._foreign_functions.add(id(site))

    def leaf(self, tensor: object, site: _Constant) -> None:
        """A tensor that a call has just made a leaf."""
        if _is_tensor(tensor):
            with metadata_only():
                if is_leaf(tensor):
                    self._identities.note_maker(tensor, site[1], site[3][0])

    def _new_data_hits(self, site: _Constant) -> DataHits | None:
        if len(self.data_hits) >= MAX_SITES:
            self.too_many_sites = True
            return None
        self.data_hits[id(site)] = hits = DataHits(site)
        return hits

    def _look(self, hits: DataHits, tensor: torch.Tensor, site: _Constant) -> None:
        with metadata_only():
            facts = tensor_facts(tensor)
            if hits.first is None:
                hits.first = facts
            hits.any_in_graph = hits.any_in_graph or facts.in_graph
            hits.lazy = hits.lazy or is_lazy(tensor)
            if len(hits.numbers) < LOOKS:
                hits.numbers[self._identities.number(tensor)] = None
        hits.expects_alias = True
        value = self._values.pop(id(site), None)
        if value is not None and (hits.assigned is None or not _changes(hits)):
            hits.assigned, hits.replaced = value, facts

    def _backward(self, roots: list[torch.Tensor], site: _Constant) -> None:
        hits = self._roots.get(id(site))
        if hits is None:
            if len(self._roots) >= MAX_SITES:
                return
            hits = self._roots[id(site)] = _RootHits(site)
        hits.hits += 1
        sequence = 0 if _sequence_nr is None else _sequence_nr()
        made = sequence - hits.last_sequence
        hits.last_sequence = sequence
        # The first graph is walked, and each that is made of another number of nodes.
        if hits.walks >= MAX_WALKS or (hits.hits > 2 and made == hits.last_made):
            return
        hits.last_made = made
        with metadata_only():
            self._walk(hits, roots)

    def _walk(self, hits: _RootHits, roots: list[torch.Tensor]) -> None:
        hits.walks += 1
        for root in roots:
            hits.requires_grad = hits.requires_grad or bool(root.requires_grad)
            if len(hits.roots) < LOOKS:
                hits.roots[self._identities.number(root)] = None
        reach = Reach((), 0, cut=True)
        if self._budget.seconds > 0:
            nodes = [grad_fn(root) for root in roots]
            reach = Walker(self._identities, self._budget).reach(nodes) if any(nodes) else NOWHERE
        leaves = [*reach.leaves]
        leaves += [self._identities.number(r) for r in roots if r.requires_grad and is_leaf(r)]
        hits.leaves.update(dict.fromkeys(leaves))
        hits.nodes = max(hits.nodes, reach.nodes)
        hits.cut = hits.cut or reach.cut

    # At the end of the cell.

    def reached(self) -> frozenset[int]:
        """Return the numbers of all leaves that a backward was seen to reach."""
        return frozenset(number for hits in self._roots.values() for number in hits.leaves)

    def accesses(self, *snapshots: Snapshot) -> tuple[DataAccess, ...]:
        """Return what each ``.data`` site did; names are those of *snapshots*."""
        return tuple(
            _access(hits, snapshots) for hits in self.data_hits.values() if hits.first is not None
        )

    def backwards(self, snapshot: Snapshot) -> tuple[BackwardCall, ...]:
        """Return what each backward site reached; names are those of *snapshot*."""
        return tuple(_backward_call(hits, snapshot) for hits in self._roots.values())


_PARTS = (
    Gathering.receiver,
    Gathering.alias,
    Gathering.value,
    Gathering.root,
    Gathering.argument,
    Gathering.function,
    Gathering.leaf,
)
"""In the order of `Part`."""


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    # Not isinstance, which asks value.__class__: it may be a property of theirs.
    return issubclass(type(value), torch.Tensor)


def _changes(hits: DataHits) -> bool:
    new, old = hits.assigned, hits.replaced
    return (
        new is not None
        and old is not None
        and ((new.shape, new.dtype, new.device) != (old.shape, old.dtype, old.device))
    )


def _counter(alias: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor that shares the version counter of *alias*, and not its storage.

    None where that cannot be had: an inference tensor has no counter, and under a mode
    or a functorch transform `detach` would be seen by somebody.
    """
    if torch._C._len_torch_dispatch_stack() or _in_transform() or alias.is_inference():
        return None
    with torch._C.DisableTorchFunction():
        return attempt(lambda: _without_storage(alias.detach()), None)


def _without_storage(counter: torch.Tensor) -> torch.Tensor:
    # A meta tensor refuses another device's storage, and has none to keep alive.
    if not counter.is_meta:
        counter.data = _NO_STORAGE
    return counter


_peek: Any = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


def _in_transform() -> bool:
    return _peek is not None and _peek() is not None


def _access(hits: DataHits, snapshots: tuple[Snapshot, ...]) -> DataAccess:
    site = Site.from_constant(hits.constant)
    names = [s.names[n] for n in hits.numbers for s in snapshots if n in s.names]
    assert hits.first is not None
    return DataAccess(
        site=site,
        hits=hits.hits,
        tensor=hits.first,
        names=tuple(dict.fromkeys(names)),
        written=hits.was_written(),
        counted=bool(hits.counters),
        any_in_graph=hits.any_in_graph,
        assigned=hits.assigned,
        replaced=hits.replaced,
        is_gradient=site.receiver.endswith(".grad"),
        is_lazy=hits.lazy,
    )


def _backward_call(hits: _RootHits, snapshot: Snapshot) -> BackwardCall:
    site = Site.from_constant(hits.constant)
    assert site.kind is SiteKind.BACKWARD
    named = [snapshot.names[n] for n in hits.roots if n in snapshot.names]
    return BackwardCall(
        site=site,
        roots=tuple(dict.fromkeys(named)) or (site.receiver,),
        reaches=tuple(dict.fromkeys(snapshot.name(number) for number in hits.leaves)),
        nodes=hits.nodes,
        hits=hits.hits,
        walks=hits.walks,
        cut=hits.cut,
        requires_grad=hits.requires_grad,
    )
