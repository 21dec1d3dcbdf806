"""Walk the backward graph: which leaves is a tensor connected to?

NOTE [Nodes must not outlive the walk]
A Python reference to a grad_fn keeps its C++ node alive, and with it every saved tensor
behind it: a report kept in Out[] would keep the graph of a whole epoch. So the walk keeps
nodes only while it runs (a dead node's id can come back as another node's) and returns
the numbers of leaves.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.observe.identity import Identities


@dataclass(slots=True)
class WalkBudget:
    """How long all walks of one cell may take together. One node costs some 5 µs.

    Attributes:
        seconds: What is left.
    """

    seconds: float


MAX_MET = 16
ZERO_DERIVATIVE = frozenset(
    f"{name}Backward{variant}"
    for name in ("Round", "Floor", "Ceil", "Trunc", "Sign", "Sgn")
    for variant in (0, 1)
)
"""Nodes whose derivative is zero wherever it exists (tools/autograd/derivatives.yaml)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a walk found.

    Attributes:
        leaves: Numbers of the leaf tensors, in the order met.
        nodes: How many nodes were visited.
        cut: The budget ended the walk.
        marked: How many nodes met were among the walker's marks.
        flat: Names of nodes met whose derivative is zero everywhere.
    """

    leaves: tuple[int, ...]
    nodes: int
    cut: bool
    flat: frozenset[str] = frozenset()
    marked: int = 0

    @property
    def is_empty_handed(self) -> bool:
        """Whether the walk was cut before it began: worth another try."""
        return self.cut and self.nodes <= 1


NOWHERE = Reach((), 0, cut=False)


def sequence_nr(node: Any) -> int:
    """Return when *node* was made, as a number; 0 for None or where torch does not tell."""
    number: int = 0 if node is None else attempt(lambda: node._sequence_nr(), 0)
    return number


@dataclass(slots=True)
class Walker:
    """Walks from one root after another, and no node twice.

    A root that lies on the graph of an earlier one costs nothing more: what is reached
    from each finished root is remembered under its node.

    Attributes:
        around: Names of nodes not to go through.
        marks: Sequence numbers of nodes to count.
        met: The first leaves met. A walker is dropped when its walk is over, and so are they.
    """

    identities: Identities
    budget: WalkBudget
    around: frozenset[str] = frozenset()
    marks: frozenset[int] = frozenset()
    met: list[torch.Tensor] = field(default_factory=list)
    _finished: dict[Any, Reach] = field(default_factory=dict)

    def reach(self, roots: Iterable[Any]) -> Reach:
        """Return what is reached from *roots*, nodes of the graph.

        Breadth first, so that a walk that is cut has found the leaves nearest to the root.
        An edge to None (an input that requires no grad) is left out, as the engine does.

        Source: ``Node.next_functions`` in torch/autograd/graph.py.
        """
        roots = [node for node in roots if node is not None]
        if len(roots) == 1 and roots[0] in self._finished:
            return self._finished[roots[0]]
        start = time.perf_counter()
        deadline = start + max(0.0, self.budget.seconds)
        reach = self._walk(roots, deadline)
        self.budget.seconds -= time.perf_counter() - start
        if len(roots) == 1 and not reach.cut:
            self._finished[roots[0]] = reach
        return reach

    def _walk(self, roots: list[Any], deadline: float) -> Reach:
        # A node hashes by its address, and stays in `seen`, so the address stays its own.
        seen: set[Any] = set(roots)
        leaves: dict[int, None] = {}
        flat: set[str] = set()
        marked = 0
        level, cut = list(roots), False
        while level and not cut:
            following: list[Any] = []
            for count, node in enumerate(level):
                if count % 64 == 0 and time.perf_counter() > deadline:
                    cut = True
                    break
                known = self._finished.get(node)
                if known is not None:
                    leaves.update(dict.fromkeys(known.leaves))
                    marked += known.marked
                    continue
                if self.marks and sequence_nr(node) in self.marks:
                    marked += 1
                name = type(node).__name__
                if name in ZERO_DERIVATIVE:
                    flat.add(name)
                    if name in self.around:
                        continue
                edges = node.next_functions
                if not edges and name == "AccumulateGrad":
                    variable = node.variable
                    if variable is not None:
                        leaves[self.identities.number(variable)] = None
                        if len(self.met) < MAX_MET:
                            self.met.append(variable)
                for following_node, _ in edges:
                    if following_node is not None and following_node not in seen:
                        seen.add(following_node)
                        following.append(following_node)
            level = following
        return Reach(tuple(leaves), len(seen), cut, frozenset(flat), marked)
