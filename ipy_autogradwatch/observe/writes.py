"""Writes through ``.data``, and the graphs that will use what they overwrote.

A node that was created before a write, and that has saved a tensor on the written memory,
will use the overwritten values in backward: no version counter tells it. Both are numbers
that can be had without a hook: sequence numbers order nodes and writes, and a node that
still holds a storage has held it since it was created, so an address is proof enough.

Nothing is kept of a tensor here: addresses, extents, sequence numbers.

Sources: ``torch/csrc/autograd/saved_variable.cpp``; ``Node._sequence_nr`` in
torch/autograd/graph.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.observe.graph import WalkBudget
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.tensor_facts import grad_fn, is_ordinary

MAX_WRITES = 256
_ASK_FOR_THE_SIGN = frozenset(
    {"ReluBackward0", "ThresholdBackward0", "LeakyReluBackward0", "AbsBackward0"}
)
"""Nodes that use no more than the sign of what they saved: a rescaled value does no harm."""
_ACCUMULATES = 2**63
"""AccumulateGrad has the largest number there is, so as to run first."""

_Constant = tuple[Any, ...]
_Range = tuple[int, int]
"""First byte and the byte after the last, from the start of the storage."""

_sequence_nr: Any = getattr(torch.autograd, "_get_sequence_nr", None)


def sequence_nr() -> int | None:
    """Return the number that the next node of this thread gets, or None if torch won't tell."""
    return None if _sequence_nr is None else int(_sequence_nr())


@dataclass(slots=True)
class Write:
    """One write through ``.data``, or one that may still come through an alias.

    Attributes:
        site: The constant of its site.
        before: Nodes with a smaller sequence number were created before the write.
        storage: Address of the written storage.
        extent: The bytes of it that the alias covers.
        whole: All of them were written; else some.
        counter: Shares the alias's version counter; the write happened once it is above
            `counted_from`. None when the source alone tells.
        edits: Sequence number of the node that computed the written tensor, or None.
        swaps: Number of the tensor under which other memory was put by an assignment.
    """

    site: _Constant
    before: int
    storage: int
    extent: _Range
    whole: bool
    counter: torch.Tensor | None = None
    counted_from: int = 0
    edits: int | None = None
    swaps: int | None = None

    @property
    def happened(self) -> bool:
        """Whether the write is known to have happened."""
        return self.counter is None or self.counter._version > self.counted_from


@dataclass(frozen=True, slots=True)
class Hit:
    """A node that suffers from a write.

    Attributes:
        kind: ``saved``: it saved what was overwritten. ``swapped``: it saved the tensor whose
            memory was exchanged. ``unrecorded``: it computes with an edit of which the
            graph knows nothing.
        node: Name of the node.
        leaves: Numbers of the leaves behind it, whose gradients are wrong.
    """

    write: Write
    kind: str
    node: str
    leaves: tuple[int, ...]


def describe_write(
    site: _Constant, tensor: torch.Tensor, number: int, *, assigns: bool, whole: bool
) -> Write | None:
    """Return the write that *site* is about to do to *tensor*, or None if it cannot matter."""
    if not is_ordinary(tensor):
        return None  # A storage is asked of the tensor itself, and may be code of theirs.
    sequence = sequence_nr()
    place = attempt(lambda: (tensor.untyped_storage()._cdata, extent(tensor)), None)
    if sequence is None or place is None:
        return None
    node = grad_fn(tensor)
    return Write(
        site=site,
        before=sequence,
        storage=place[0],
        extent=place[1],
        whole=whole,
        edits=None if node is None else int(node._sequence_nr()),
        swaps=number if assigns else None,
    )


def extent(tensor: torch.Tensor) -> _Range:
    """Return which bytes of its storage *tensor* lies in."""
    size = tensor.element_size()
    first = int(tensor.storage_offset()) * size
    if tensor.numel() == 0:
        return first, first
    reach = sum((n - 1) * abs(s) for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (int(reach) + 1) * size


class Writes:
    """The latest writes of a shell, the oldest forgotten first.

    Attributes:
        unchecked: A certain write came after the last look for hits.
    """

    def __init__(self) -> None:
        self.unchecked = False
        self._writes: list[Write] = []

    def add(self, write: Write, *, is_certain: bool) -> None:
        """Remember *write*; one that is not certain is looked at when its turn comes."""
        self.unchecked = self.unchecked or is_certain
        self._writes.append(write)
        if len(self._writes) > MAX_WRITES:
            del self._writes[0]

    def hits(
        self, roots: Iterable[torch.Tensor], identities: Identities, budget: WalkBudget
    ) -> list[Hit]:
        """Return what the graphs of *roots* suffer from the writes; a write counts once.

        Called when a backward is about to run: it is then that saved values are used.
        """
        self.unchecked = False
        pending = [write for write in self._writes if write.happened]
        if not pending or budget.seconds <= 0:
            return []
        start = time.perf_counter()
        found = _Search(pending, identities, start + budget.seconds).run(roots)
        budget.seconds -= time.perf_counter() - start
        done = {id(hit.write) for hit in found}
        self._writes = [write for write in self._writes if id(write) not in done]
        return found


class _Search:
    """One walk for all pending writes."""

    def __init__(self, pending: list[Write], identities: Identities, deadline: float) -> None:
        self._identities = identities
        self._deadline = deadline
        self._latest = max(write.before for write in pending)
        self._by_storage: dict[int, list[Write]] = {}
        self._by_tensor = {w.swaps: w for w in pending if w.swaps is not None}
        self._by_edit = {w.edits: w for w in pending if w.edits is not None and w.swaps is None}
        for write in pending:
            if write.swaps is None:
                self._by_storage.setdefault(write.storage, []).append(write)

    def run(self, roots: Iterable[torch.Tensor]) -> list[Hit]:
        """Return what was found; nothing if the graph was made by more than one thread.

        A device's autograd thread numbers the nodes that it makes (under create_graph) by a
        count of its own, and then numbers do not order. Within one thread a node comes after
        those that it leads to.
        """
        seen: dict[Any, None] = dict.fromkeys(filter(None, map(grad_fn, roots)))
        found: dict[int, Hit] = {}
        level = list(seen)
        while level:
            following: list[Any] = []
            for node in level:
                for write, kind in self._suffers(node):
                    if id(write) not in found or (kind == "saved" != found[id(write)].kind):
                        found[id(write)] = Hit(write, kind, str(node.name()), self._leaves(node))
                number = node._sequence_nr()
                for successor, _ in node.next_functions:
                    if successor is None or successor in seen:
                        continue
                    if number < successor._sequence_nr() < _ACCUMULATES:
                        return []
                    seen[successor] = None
                    following.append(successor)
            if time.perf_counter() > self._deadline:
                break
            level = following
        return list(found.values())

    def _suffers(self, node: Any) -> Iterator[tuple[Write, str]]:
        sequence = node._sequence_nr()
        if sequence < self._latest and str(node.name()) not in _ASK_FOR_THE_SIGN:
            for tensor in _saved_by(node):
                yield from self._overwritten(tensor, sequence)
        for successor, _ in node.next_functions:
            # A node after the write uses what a node before it computed: the edit between
            # the two is in the values and not in the graph.
            write = None if successor is None else self._by_edit.get(successor._sequence_nr())
            if write is not None and sequence >= write.before:
                yield write, "unrecorded"

    def _overwritten(self, tensor: torch.Tensor, sequence: int) -> Iterator[tuple[Write, str]]:
        if not is_ordinary(tensor):
            return
        storage = attempt(lambda: tensor.untyped_storage()._cdata, 0)
        for write in self._by_storage.get(storage, ()):
            if sequence < write.before and _concerns(write, extent(tensor)):
                yield write, "saved"
        if self._by_tensor:
            swapped = self._by_tensor.get(self._identities.number(tensor))
            if swapped is not None and sequence < swapped.before:
                yield swapped, "swapped"

    def _leaves(self, node: Any) -> tuple[int, ...]:
        seen, level = {node}, [node]
        leaves: dict[int, None] = {}
        while level and time.perf_counter() < self._deadline:
            following: list[Any] = []
            for current in level:
                if type(current).__name__ == "AccumulateGrad":
                    leaves[self._identities.number(current.variable)] = None
                for successor, _ in current.next_functions:
                    if successor is not None and successor not in seen:
                        seen.add(successor)
                        following.append(successor)
            level = following
        return tuple(leaves)


def _concerns(write: Write, saved: _Range) -> bool:
    """Whether *write* surely changed a part of the bytes *saved*."""
    if write.whole:
        return write.extent[0] < saved[1] and saved[0] < write.extent[1]
    return saved[0] <= write.extent[0] and write.extent[1] <= saved[1]


_RAW_NAMES: dict[type, tuple[str, ...]] = {}


def _saved_by(node: Any) -> list[torch.Tensor]:
    """Return the tensors that *node* has saved, without unpacking them.

    Unpacking would run the hooks of whoever packed them: a non-reentrant checkpoint
    recomputes. What such a hook holds is not looked at; freed tensors are none.
    """
    kind = type(node)
    names = _RAW_NAMES.get(kind)
    if names is None:
        names = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
        if kind.__module__ == "builtins":  # Not the class of somebody's custom Function.
            _RAW_NAMES[kind] = names
    packed = [attempt(lambda n=name: getattr(node, n), None) for name in names]  # type: ignore[misc]
    return [tensor for item in packed for tensor in _unhooked(item)]


def _unhooked(packed: Any) -> Iterator[torch.Tensor]:
    for item in packed if isinstance(packed, (tuple, list)) else (packed,):
        if item is None or getattr(item, "unpack_hook", True) is not None:
            continue
        tensor = item.data
        if isinstance(tensor, torch.Tensor):
            yield tensor
