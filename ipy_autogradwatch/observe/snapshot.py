"""The tensors of a namespace as they are now, and what a cell did to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar

import torch

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.model import GradChange, GradState, TensorState
from ipy_autogradwatch.observe import tensor_facts as facts
from ipy_autogradwatch.observe.graph import NOWHERE, Reach, WalkBudget, Walker, sequence_nr
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.namespace import find_tensors

MAX_TENSORS = 2000
SEARCH_SECONDS = 0.015


@dataclass(slots=True)
class _Seen:
    """One tensor as it was read. Snapshots share it for as long as nothing changes.

    Attributes:
        number: Of the tensor object.
        key: What was read of it, raw.
        reach: The leaves that its graph reaches.
        grad_number, grad_version: Of its gradient, or None.
        base: Number of the tensor that it is a view of, or None.
        state: What `states` made of it last, to be used again.
    """

    number: int
    key: facts.Key
    reach: Reach
    grad_number: int | None
    grad_version: int | None
    base: int | None = None
    state: TensorState | None = None


@dataclass(slots=True)
class Snapshot:
    """What was found at one moment: facts and numbers, no tensor.

    Attributes:
        names: Number of a tensor object to its best name.
        labels: Number of a leaf that has no name, to what it is called instead.
        elements: Number of a tensor to the numbers read from its gradient's elements.
        cut: Why some tensors may be missing, or an empty string.
    """

    names: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    elements: dict[int, dict[str, Any]] = field(default_factory=dict)
    cut: str = ""
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seen: dict[str, _Seen] = field(default_factory=dict)

    def label_leaves(self, reached: frozenset[int], identities: Identities) -> None:
        """Find something to call the leaves that are connected and have no name."""
        connected = {leaf for seen in self.seen.values() for leaf in seen.reach.leaves}
        for number in (connected | reached) - self.names.keys():
            made_at = identities.maker(number)
            if made_at is not None:
                cell, line = made_at
                place = "another notebook" if cell is None else f"cell {cell}"
                self.labels[number] = f"<leaf of {place}, line {line}>"

    def name(self, number: int) -> str:
        """Return what the tensor object with *number* is called."""
        return self.names.get(number) or self.labels.get(number) or "<unnamed leaf>"


def take_snapshot(
    namespace: Mapping[str, object],
    *,
    hidden: frozenset[str],
    identities: Identities,
    budget: WalkBudget,
    previous: Snapshot | None = None,
    marks: frozenset[int] = frozenset(),
    read_gradients: bool = False,
) -> Snapshot:
    """Look at every tensor of *namespace*.

    Args:
        namespace: Names and values.
        hidden: Names that are the shell's own.
        identities: Numbers of tensor objects.
        budget: For the walks through graphs.
        previous: An earlier snapshot. The graph of a tensor that has not changed since is
            not walked again.
        marks: Sequence numbers of nodes to count, where a graph contains them.
        read_gradients: Compute norms of the gradients. This reads elements.
    """
    with facts.metadata_only():
        return _take(namespace, hidden, identities, budget, previous, marks, read_gradients)


def _take(
    namespace: Mapping[str, object],
    hidden: frozenset[str],
    identities: Identities,
    budget: WalkBudget,
    previous: Snapshot | None,
    marks: frozenset[int],
    read_gradients: bool,
) -> Snapshot:
    found = find_tensors(namespace, hidden=hidden, max_tensors=MAX_TENSORS, seconds=SEARCH_SECONDS)
    snapshot = Snapshot(cut=found.cut)
    snapshot.also = {name: tuple(names) for name, names in found.also.items()}
    known = {} if previous is None else previous.seen
    number_of = identities.number
    unwalked: list[tuple[_Seen, torch.Tensor]] = []
    readings = facts.read_all([tensor for _, tensor in found.tensors])
    for (name, tensor), (key, gradient, grad_version) in zip(found.tensors, readings, strict=True):
        number = number_of(tensor)
        grad_number = None if gradient is None else number_of(gradient)
        snapshot.names[number] = name
        seen = known.get(name)
        if seen is None or seen.number != number or seen.key != key or seen.reach.is_empty_handed:
            seen = _Seen(number, key, NOWHERE, grad_number, grad_version)
            if key[3] and not key[4]:
                base = attempt(lambda t=tensor: t._base, None)  # type: ignore[misc]
                seen.base = None if base is None else number_of(base)
                unwalked.append((seen, tensor))
        elif seen.grad_number != grad_number or seen.grad_version != grad_version:
            seen = _Seen(number, key, seen.reach, grad_number, grad_version, seen.base)
        snapshot.seen[name] = seen
        if read_gradients and gradient is not None:
            snapshot.elements[number] = attempt(lambda g=gradient: _elements(g), {})  # type: ignore[misc]
    _walk(unwalked, Walker(identities, budget, marks=marks))
    return snapshot


def _walk(unwalked: list[tuple[_Seen, torch.Tensor]], walker: Walker) -> None:
    nodes = [facts.grad_fn(tensor) for _, tensor in unwalked]
    # The oldest first: the graph of a later one ends where an earlier one was walked.
    for index in sorted(range(len(nodes)), key=lambda index: sequence_nr(nodes[index])):
        unwalked[index][0].reach = walker.reach([nodes[index]])


def _elements(gradient: torch.Tensor) -> dict[str, Any]:
    """Return norm, largest and mean magnitude, and the count of NaN and Inf.

    The one place of the watch that reads elements: only ``%%gradcheck`` comes here.
    """
    if not facts.is_ordinary(gradient) or torch._C._len_torch_dispatch_stack():
        return {}  # Somebody's code would see what we compute.
    with torch.no_grad():
        values = gradient.detach()
        if values.layout is torch.sparse_coo:
            values = values.coalesce().values()
        if values.numel() == 0:
            return {"norm": 0.0, "max_abs": 0.0, "mean_abs": 0.0, "nonfinite": 0}
        magnitude = values.abs()
        if magnitude.device.type != "mps":  # It has no float64.
            magnitude = magnitude.double()
        finite = torch.isfinite(magnitude)
        bad = int((~finite).sum())
        good = magnitude[finite] if bad else magnitude
        if good.numel() == 0:
            return {"norm": math.nan, "max_abs": math.nan, "mean_abs": math.nan, "nonfinite": bad}
        return {
            "norm": float(torch.linalg.vector_norm(good)) if not bad else math.nan,
            "max_abs": float(good.max()),
            "mean_abs": float(good.mean()),
            "nonfinite": bad,
        }


def states(
    snapshot: Snapshot, *, since: Snapshot | None = None, reached: frozenset[int] = frozenset()
) -> dict[str, TensorState]:
    """Return the state of each tensor by name.

    Args:
        snapshot: The moment to describe.
        since: An earlier moment. Gradients are described as they changed since then.
        reached: Numbers of the leaves that a backward in between has reached.
    """
    earlier = {} if since is None else {seen.number: seen for seen in since.seen.values()}
    result: dict[str, TensorState] = {}
    for name, seen in snapshot.seen.items():
        before = earlier.get(seen.number) if since is not None else seen
        change, elements = _UNCHANGED, None
        if before is not seen:
            change = _grad_change(seen, before, was_reached=seen.number in reached)
        if snapshot.elements:
            elements = snapshot.elements.get(seen.number)
        if elements:
            grad = GradState(change, seen.grad_version, **elements, number=seen.grad_number)
            result[name] = _state(snapshot, name, seen, grad)
        elif change is _UNCHANGED:
            result[name] = _unchanged_state(snapshot, name, seen)
        else:
            grad = _new_grad(change, seen.grad_version, None, None, None, None, seen.grad_number)
            result[name] = _state(snapshot, name, seen, grad)
    return result


def _unchanged_state(snapshot: Snapshot, name: str, seen: _Seen) -> TensorState:
    """Return the state of a tensor whose gradient did not change: one object, while it lasts."""
    state = seen.state
    if (
        state is None
        or state.also != snapshot.also.get(name, ())
        or (seen.reach.leaves and state.reaches != _reaches(snapshot, seen))
    ):
        grad = None
        if seen.grad_number is not None:
            grad = _new_grad(
                _UNCHANGED, seen.grad_version, None, None, None, None, seen.grad_number
            )
        state = seen.state = _state(snapshot, name, seen, grad)
    return state


def _reaches(snapshot: Snapshot, seen: _Seen) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(snapshot.name, seen.reach.leaves)))


def _state(snapshot: Snapshot, name: str, seen: _Seen, grad: GradState | None) -> TensorState:
    shape, dtype, device, requires_grad, leaf, version, storage, node, parameter = seen.key
    try:
        shape, dtype, device = _words(shape, dtype, device)
    except TypeError:  # A symbolic size does not hash.
        shape, dtype, device = _words(facts.plain_shape(shape), dtype, device)
    return _new_state(
        shape,
        dtype,
        device,
        requires_grad,
        leaf,
        node,
        version,
        _reaches(snapshot, seen) if seen.reach.leaves else (),
        seen.reach.cut,
        grad,
        seen.number,
        storage,
        parameter,
        snapshot.also.get(name, ()),
        seen.base,
        seen.reach.marked,
    )


@lru_cache(maxsize=4096)
def _words(shape: Any, dtype: object, device: object) -> tuple[tuple[int, ...] | None, str, str]:
    """Return them as a report has them."""
    name_of = facts.name_of_dtype_or_device
    return None if shape is None else facts.plain_shape(shape), name_of(dtype), name_of(device)


_Made = TypeVar("_Made")


def _quick_maker(kind: type[_Made]) -> Callable[..., _Made]:
    """Return what makes a *kind*, a frozen dataclass with slots, from all its fields.

    Its own ``__init__`` takes three times as long, and a training step makes hundreds.
    """
    setters = [kind.__dict__[each.name].__set__ for each in fields(kind)]  # type: ignore[arg-type]

    def make(*values: object) -> _Made:
        made = object.__new__(kind)
        for set_field, value in zip(setters, values, strict=True):
            set_field(made, value)
        return made

    return make


_UNCHANGED = GradChange.UNCHANGED
_new_state = _quick_maker(TensorState)
_new_grad = _quick_maker(GradState)


def _grad_change(now: _Seen, before: _Seen | None, *, was_reached: bool) -> GradChange:
    """Return what happened to a gradient; one that was and is None is unchanged."""
    old = None if before is None else before.grad_number
    if now.grad_number is None:
        return _UNCHANGED if old is None else GradChange.CLEARED
    if old is None:
        return GradChange.NEW
    if old != now.grad_number:
        return GradChange.REPLACED
    if before is not None and before.grad_version == now.grad_version:
        return _UNCHANGED
    return GradChange.ACCUMULATED if was_reached else GradChange.WRITTEN
