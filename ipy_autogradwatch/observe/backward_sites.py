"""What the backwards of a cell started from, and what they reached."""

from __future__ import annotations

import weakref
from typing import Any, TypeGuard, cast

import torch

from ipy_autogradwatch.model import BackwardCall, Damage, DamageKind, Site
from ipy_autogradwatch.observe.graph import NOWHERE, ZERO_DERIVATIVE, Reach, WalkBudget, Walker
from ipy_autogradwatch.observe.graph import sequence_nr as node_number
from ipy_autogradwatch.observe.history import LeafHistory
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.snapshot import Snapshot
from ipy_autogradwatch.observe.tensor_facts import grad_fn, is_leaf, metadata_only, requires_grad
from ipy_autogradwatch.observe.writes import Hit, Writes, sequence_nr

MAX_SITES = 2000
MAX_WALKS = 8
"""Graph walks of one site in one cell."""
MAX_ROOTS = 8
CHECKS = 4
"""Hits of a site before each of which written memory is looked for."""

_Constant = tuple[Any, ...]

_sequence_nr: Any = getattr(torch.autograd, "_get_sequence_nr", None)


class RootHits:
    """One backward site, while the cell runs."""

    __slots__ = (
        "constant",
        "cut",
        "flat",
        "hits",
        "is_root",
        "last_made",
        "last_sequence",
        "late",
        "leaf_refs",
        "leaves",
        "nodes",
        "requires_grad",
        "roots",
        "uncleared",
        "walks",
        "zero",
    )

    def __init__(self, constant: _Constant) -> None:
        self.constant = constant  # Keeps it, so that its id stays its own.
        self.hits = 0
        self.is_root = False
        self.walks = 0
        self.last_sequence = 0
        self.last_made: int | None = None
        self.roots: dict[int, None] = {}
        self.leaves: dict[int, None] = {}
        self.nodes = 0
        self.cut = False
        self.requires_grad = False
        self.zero: dict[int, None] = {}
        self.flat: set[str] = set()
        self.late: dict[int, _Constant] = {}
        self.leaf_refs: list[weakref.ref[torch.Tensor]] = []
        self.uncleared: dict[int, None] = {}

    @property
    def accumulates(self) -> bool:
        """Whether it adds into ``.grad``, which ``torch.autograd.grad`` does not."""
        return bool(self.constant[6] != "grad")

    def only_counts(self) -> bool:
        """Count a hit like the one before it, which need not be looked at; False for others."""
        sequence = _sequence_nr() if _sequence_nr is not None else 0
        count = self.hits + 1
        if sequence - self.last_sequence != self.last_made or not count & self.hits:
            return False
        if count <= CHECKS or not self.is_root:
            return False
        self.hits, self.last_sequence = count, sequence
        return True

    def has_another_graph(self) -> bool:
        """Count a hit, and say whether its graph may differ from that of the hit before.

        By the number of nodes made since: a loop makes the same number each time.
        """
        self.hits += 1
        sequence = sequence_nr() or 0
        made, self.last_sequence = sequence - self.last_sequence, sequence
        if self.walks >= MAX_WALKS or (self.hits > 2 and made == self.last_made):
            return False
        self.last_made = made
        return True


class BackwardSites:
    """The backward sites of one cell; each part of a site has its method."""

    def __init__(
        self,
        identities: Identities,
        writes: Writes,
        history: LeafHistory,
        *,
        walks: WalkBudget,
        checks: WalkBudget,
    ) -> None:
        self._identities = identities
        self._writes = writes
        self._walks = walks
        self._checks = checks
        self._history = history
        self.hits: dict[int, RootHits] = {}
        self._damages: list[tuple[Hit, _Constant]] = []
        self._foreign_functions: set[int] = set()
        self._awaits_argument: set[int] = set()

    def root(self, value: object, site: _Constant) -> None:
        """What a backward starts from."""
        if id(site) in self._foreign_functions:
            return
        if is_tensor(value):
            self._backward([value], site, is_root=True)
        elif type(value) in (list, tuple):
            self._backward([tensor for tensor in cast(Any, value) if is_tensor(tensor)], site)
        else:
            # ``accelerator.backward(loss)``: the root is the argument, which comes next.
            self._awaits_argument.add(id(site))

    def argument(self, value: object, site: _Constant) -> None:
        """First argument of ``E.backward(argument)``; a root if E is no tensor."""
        if id(site) in self._awaits_argument:
            self._awaits_argument.discard(id(site))
            if is_tensor(value):
                self._backward([value], site)

    def function(self, value: object, site: _Constant) -> None:
        """``grad`` of ``grad(outputs, inputs)``, which may be anybody's function."""
        if value is torch.autograd.grad or value is torch.autograd.backward:
            self._foreign_functions.discard(id(site))
        else:
            self._foreign_functions.add(id(site))

    def reached(self) -> frozenset[int]:
        """Return the numbers of all leaves into whose gradient a backward was seen to add."""
        return frozenset(
            number for hits in self.hits.values() if hits.accumulates for number in hits.leaves
        )

    def backwards(self, snapshot: Snapshot) -> tuple[BackwardCall, ...]:
        """Return what each site reached; names are those of *snapshot*."""
        return tuple(_backward_call(hits, snapshot) for hits in self.hits.values())

    def damages(self, snapshot: Snapshot) -> tuple[Damage, ...]:
        """Return the gradients that a write made wrong; names are those of *snapshot*."""
        return tuple(
            Damage(
                site=Site.from_constant(hit.write.site),
                kind=DamageKind(hit.kind),
                node=hit.node,
                backward=Site.from_constant(backward),
                leaves=tuple(dict.fromkeys(map(snapshot.name, hit.leaves))),
            )
            for hit, backward in self._damages
        )

    def _backward(
        self, roots: list[torch.Tensor], site: _Constant, *, is_root: bool = False
    ) -> None:
        hits = self.hits.get(id(site))
        if hits is None:
            if len(self.hits) >= MAX_SITES:
                return
            hits = self.hits[id(site)] = RootHits(site)
        hits.is_root = is_root
        another = hits.has_another_graph()
        count = hits.hits
        check = count <= CHECKS or self._writes.unchecked or count & (count - 1) == 0
        if not (another or check):
            return  # Nearly every hit of a training loop.
        with metadata_only():
            if hits.accumulates and roots:
                self._history.roots.append(node_number(grad_fn(roots[0])))
            if another:
                self._walk(hits, roots)
            if check:
                self._check(hits, roots, site)

    def _check(self, hits: RootHits, roots: list[torch.Tensor], site: _Constant) -> None:
        """Look at what this backward is about to use: old gradients, overwritten values."""
        if hits.accumulates:
            leaves = [leaf for ref in hits.leaf_refs if (leaf := ref()) is not None]
            left = self._history.uncleared(leaves, self._identities)
            hits.uncleared.update(dict.fromkeys(left))
        found = self._writes.hits(roots, self._identities, self._checks)
        self._damages += [(hit, site) for hit in found]

    def _walk(self, hits: RootHits, roots: list[torch.Tensor]) -> None:
        hits.walks += 1
        for root in roots:
            hits.requires_grad = hits.requires_grad or requires_grad(root)
            if len(hits.roots) < MAX_ROOTS:
                hits.roots[self._identities.number(root)] = None
        reach = Reach((), 0, cut=True)
        if self._walks.seconds > 0:
            reach = self._reach(hits, [node for node in map(grad_fn, roots) if node is not None])
        leaves = [*reach.leaves]
        leaves += [self._identities.number(r) for r in roots if is_leaf(r) and requires_grad(r)]
        hits.leaves.update(dict.fromkeys(leaves))
        hits.nodes = max(hits.nodes, reach.nodes)
        hits.cut = hits.cut or reach.cut

    def _reach(self, hits: RootHits, nodes: list[Any]) -> Reach:
        if not nodes:
            return NOWHERE
        walker = Walker(self._identities, self._walks)
        reach = walker.reach(nodes)
        hits.leaf_refs = [weakref.ref(leaf) for leaf in walker.met]
        made = max(node._sequence_nr() for node in nodes)
        for site in self._history.made_after(made, reach.leaves):
            hits.late[id(site)] = site
        if reach.flat and not reach.cut:
            hits.flat |= reach.flat
            steep = Walker(self._identities, self._walks, around=ZERO_DERIVATIVE).reach(nodes)
            if not steep.cut:
                hits.zero.update(dict.fromkeys(n for n in reach.leaves if n not in steep.leaves))
        return reach


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether *value* is a tensor; asks nothing of its own class."""
    # Not isinstance, which asks value.__class__: it may be a property of theirs.
    return issubclass(type(value), torch.Tensor)


def _backward_call(hits: RootHits, snapshot: Snapshot) -> BackwardCall:
    site = Site.from_constant(hits.constant)
    named = [snapshot.names[n] for n in hits.roots if n in snapshot.names]
    return BackwardCall(
        site=site,
        roots=tuple(dict.fromkeys(named)) or (site.receiver,),
        reaches=tuple(dict.fromkeys(map(snapshot.name, hits.leaves))),
        nodes=hits.nodes,
        hits=hits.hits,
        walks=hits.walks,
        cut=hits.cut,
        requires_grad=hits.requires_grad,
        uncleared=tuple(dict.fromkeys(map(snapshot.name, hits.uncleared))),
        zero=tuple(dict.fromkeys(map(snapshot.name, hits.zero))),
        flat=tuple(sorted(hits.flat)),
        late=tuple(Site.from_constant(site) for site in hits.late.values()),
    )
