"""What a cell did to the tensors of the namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ipy_autogradwatch.model import CellRecord, Change, ChangeKind, GradChange, TensorState


def changes(record: CellRecord) -> tuple[Change, ...]:
    """Return what differs between the start and the end of the cell, in namespace order."""
    return tuple(_changes(record.before, record.after, was_cut=bool(record.cuts)))


def _changes(
    before: Mapping[str, TensorState], after: Mapping[str, TensorState], *, was_cut: bool
) -> Iterator[Change]:
    old = {state.identity: state for state in before.values()}
    new = {state.identity for state in after.values()}
    met_all_variables = not was_cut or len(before) < 256 or any(map(_is_nested, before))
    for name, state in after.items():
        if before.get(name) is state:
            continue  # Snapshots share the state of what did not change.
        # The same object may go by another name than before.
        same = old.get(state.identity)
        grad = _grad(state)
        if same is not None:
            details = _details(same, state, before, after)
            if details or grad is not None:
                yield Change(name, ChangeKind.CHANGED, details, grad)
        elif name in before:
            yield Change(name, ChangeKind.CHANGED, ("another tensor than before",), grad)
        elif met_all_variables if not _is_nested(name) else not was_cut:
            yield Change(name, ChangeKind.ADDED, grad=grad)
    if not was_cut:
        for name, state in before.items():
            if name not in after and state.identity not in new:
                yield Change(name, ChangeKind.GONE)


def _is_nested(name: str) -> bool:
    """Whether *name* is no variable, but something in one.

    A search that was cut has met all variables if it met anything in them, or few. Of what
    lies deeper it is not known whether it is new, or was out of reach before.
    """
    return "." in name or "[" in name


def _grad(state: TensorState) -> GradChange | None:
    if state.grad is None or state.grad.identity is _UNCHANGED:
        return None
    return state.grad.identity


def _details(
    old: TensorState,
    now: TensorState,
    before: Mapping[str, TensorState],
    after: Mapping[str, TensorState],
) -> tuple[str, ...]:
    details = []
    if old.shape != now.shape:
        details.append(f"shape {old.shape} → {now.shape}")
    if old.dtype != now.dtype:
        details.append(f"dtype {old.dtype} → {now.dtype}")
    if old.device != now.device:
        details.append(f"device {old.device} → {now.device}")
    if old.requires_grad != now.requires_grad:
        details.append(f"requires_grad {old.requires_grad} → {now.requires_grad}")
    if old.is_leaf != now.is_leaf:
        details.append("a leaf now" if now.is_leaf else "no leaf any more")
    was_written = old.version != now.version and None not in (old.version, now.version)
    if was_written:
        details.append("written in place")
    elif old.storage != now.storage and None not in (old.storage, now.storage):
        details.append("other memory under it")
    # The graph of one tensor object changes only when it is written, or made a leaf.
    may_differ = was_written or old.grad_fn != now.grad_fn
    is_known = not (old.reaches_cut or now.reaches_cut)
    if may_differ and is_known and _leaves(old, before) != _leaves(now, after):
        details.append("connected to other leaves")
    return tuple(details)


def _leaves(state: TensorState, moment: Mapping[str, TensorState]) -> set[int | str]:
    """Return the leaves as numbers: their names may change."""
    return {moment[name].identity if name in moment else name for name in state.reaches}


_UNCHANGED = GradChange.UNCHANGED
