"""What a cell did to the tensors of the namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ipy_autogradwatch.model import CellRecord, Change, ChangeKind, GradChange, TensorState

_FIELDS = ("shape", "dtype", "device", "requires_grad")


def changes(record: CellRecord) -> tuple[Change, ...]:
    """Return what differs between the start and the end of the cell, in namespace order."""
    return tuple(_changes(record.before, record.after, was_cut=bool(record.cuts)))


def _changes(
    before: Mapping[str, TensorState], after: Mapping[str, TensorState], *, was_cut: bool
) -> Iterator[Change]:
    old_names = {state.identity: name for name, state in before.items()}
    new_names = {state.identity: name for name, state in after.items()}
    for name, state in after.items():
        earlier = before.get(name)
        if earlier is state:
            continue  # Snapshots share the state of what did not change.
        # The same object may go by another name than before.
        same = before.get(old_names.get(state.identity, ""))
        grad = _grad(state)
        if earlier is None and same is None:
            # What a cut search did not reach before is not known to be new.
            if not was_cut or ("." not in name and "[" not in name):
                yield Change(name, ChangeKind.ADDED, grad=grad)
        elif same is None:
            yield Change(name, ChangeKind.CHANGED, ("another tensor than before",), grad)
        else:
            details = tuple(_details(same, state))
            if details or grad is not None:
                yield Change(name, ChangeKind.CHANGED, details, grad)
    if was_cut:
        return
    for name, state in before.items():
        if name not in after and state.identity not in new_names:
            yield Change(name, ChangeKind.GONE)


def _grad(state: TensorState) -> GradChange | None:
    if state.grad is None or state.grad.identity is GradChange.UNCHANGED:
        return None
    return state.grad.identity


def _details(before: TensorState, now: TensorState) -> Iterator[str]:
    for field in _FIELDS:
        old, new = getattr(before, field), getattr(now, field)
        if old != new:
            yield f"{field} {old} → {new}"
    if before.is_leaf and not now.is_leaf:
        yield "no leaf any more"
    elif not before.is_leaf and now.is_leaf:
        yield "a leaf now"
    if before.version != now.version and None not in (before.version, now.version):
        yield "written in place"
    elif before.storage != now.storage and None not in (before.storage, now.storage):
        yield "other memory under it"
    if before.reaches != now.reaches and not (before.reaches_cut or now.reaches_cut):
        yield "connected to other leaves"
