"""The tensors of a namespace as they are now, and what a cell did to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.model import GradChange, GradState, TensorState
from ipy_autogradwatch.observe import tensor_facts as facts
from ipy_autogradwatch.observe.graph import NOWHERE, Reach, WalkBudget, Walker
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.namespace import find_tensors

MAX_TENSORS = 2000
SEARCH_SECONDS = 0.010

_Key = tuple[Any, ...]
"""All that is read of one tensor; equal keys mean that nothing was done to it."""


@dataclass(slots=True)
class _Seen:
    """One tensor as it was read. Snapshots share it for as long as nothing changes.

    Attributes:
        number: Of the tensor object.
        key: What was read of it, raw.
        reach: The leaves that its graph reaches.
        grad_number, grad_version: Of its gradient, or None.
        state: What `states` made of it last, to be used again.
    """

    number: int
    key: _Key
    reach: Reach
    grad_number: int | None
    grad_version: int | None
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
                self.labels[number] = f"<leaf of cell {cell}, line {line}>"

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
        read_gradients: Compute norms of the gradients. This reads elements.
    """
    with facts.metadata_only():
        return _take(namespace, hidden, identities, budget, previous, read_gradients)


def _take(
    namespace: Mapping[str, object],
    hidden: frozenset[str],
    identities: Identities,
    budget: WalkBudget,
    previous: Snapshot | None,
    read_gradients: bool,
) -> Snapshot:
    snapshot = Snapshot()
    walker = Walker(identities, budget)
    found = find_tensors(namespace, hidden=hidden, max_tensors=MAX_TENSORS, seconds=SEARCH_SECONDS)
    snapshot.cut = found.cut
    snapshot.also = {name: tuple(names) for name, names in found.also.items()}
    known = {} if previous is None else previous.seen
    for name, tensor in found.tensors:
        number = identities.number(tensor)
        snapshot.names[number] = name
        key = facts.quick_key(tensor)
        gradient = facts.grad(tensor)
        grad_number = None if gradient is None else identities.number(gradient)
        grad_version = None if gradient is None else facts.version(gradient)
        seen = known.get(name)
        if seen is None or (seen.number, seen.key) != (number, key):
            reach = walker.reach([facts.grad_fn(tensor)]) if key[3] and not key[4] else NOWHERE
            seen = _Seen(number, key, reach, grad_number, grad_version)
        elif (seen.grad_number, seen.grad_version) != (grad_number, grad_version):
            seen = _Seen(number, key, seen.reach, grad_number, grad_version)
        snapshot.seen[name] = seen
        if gradient is not None and read_gradients:
            snapshot.elements[number] = attempt(lambda g=gradient: _elements(g), {})  # type: ignore[misc]
    return snapshot


def _elements(gradient: torch.Tensor) -> dict[str, Any]:
    """Return norm, largest and mean magnitude, and the count of NaN and Inf.

    The one place of the watch that reads elements: only ``%%gradcheck`` comes here.
    """
    with torch.no_grad():
        values = gradient.detach()
        if values.layout is torch.sparse_coo:
            values = values.coalesce().values()
        if values.numel() == 0:
            return {"norm": 0.0, "max_abs": 0.0, "mean_abs": 0.0, "nonfinite": 0}
        magnitude = values.abs().double()
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
        grad = _grad_change(seen, before, was_reached=seen.number in reached)
        elements = snapshot.elements.get(seen.number)
        state = _plain_state(snapshot, name, seen)
        if elements or (grad is not None and grad is not GradChange.UNCHANGED):
            assert grad is not None
            change = GradState(grad, version=seen.grad_version, **(elements or {}))
            state = replace(state, grad=change)
        result[name] = state
    return result


def _plain_state(snapshot: Snapshot, name: str, seen: _Seen) -> TensorState:
    """Return the state of one tensor with an unchanged gradient."""
    reaches = tuple(dict.fromkeys(map(snapshot.name, seen.reach.leaves)))
    also = snapshot.also.get(name, ())
    state = seen.state
    if state is None or state.reaches != reaches or state.also != also:
        shape, dtype, device, requires_grad, leaf, version, storage, node, parameter = seen.key
        grad = GradState(GradChange.UNCHANGED, version=seen.grad_version)
        state = seen.state = TensorState(
            shape=None if shape is None else tuple(shape),
            dtype=facts.name_of(dtype),
            device=facts.name_of(device),
            requires_grad=requires_grad,
            is_leaf=leaf,
            grad_fn=node,
            version=version,
            reaches=reaches,
            reaches_cut=seen.reach.cut,
            grad=None if seen.grad_number is None else grad,
            identity=seen.number,
            storage=storage,
            is_parameter=parameter,
            also=also,
        )
    return state


def _grad_change(now: _Seen, before: _Seen | None, *, was_reached: bool) -> GradChange | None:
    """Return what happened to a gradient, or None where there was and is none."""
    old = None if before is None else before.grad_number
    if now.grad_number is None:
        return None if old is None else GradChange.CLEARED
    if old is None:
        return GradChange.NEW
    if old != now.grad_number:
        return GradChange.REPLACED
    if before is not None and before.grad_version == now.grad_version:
        return GradChange.UNCHANGED
    return GradChange.ACCUMULATED if was_reached else GradChange.WRITTEN
