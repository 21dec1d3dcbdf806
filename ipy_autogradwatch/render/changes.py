"""What is shown of the tensors of the namespace: one row each, a module folded into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ipy_autogradwatch.model import (
    CellReport,
    Change,
    ChangeKind,
    GradChange,
    GradState,
    TensorState,
)
from ipy_autogradwatch.render.words import (
    MAX_NAME,
    MAX_NAMES,
    count,
    names_text,
    owner_of,
    shape_text,
    short,
)

MAX_ROWS = 20
MAX_ITEMS = 100

_UNCHANGED = ("unchanged",)
_SIGNS = {ChangeKind.ADDED: "+", ChangeKind.CHANGED: "~", ChangeKind.GONE: "-"}
_GRAD_WORDS = {
    GradChange.NEW: "grad new",
    GradChange.REPLACED: "grad replaced",
    GradChange.ACCUMULATED: "grad accumulated into",
    GradChange.WRITTEN: "grad written in place",
    GradChange.CLEARED: "grad cleared",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the before/after table: a sign, whom it is about, and what."""

    sign: str
    name: str
    shape: str
    text: str
    items: tuple[tuple[str, str], ...] = ()
    """What a folded row stands for."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows, and what is said in a sentence."""

    rows: tuple[Row, ...] = ()
    without_graph: str = ""
    """New tensors that autograd has nothing to do with."""
    still_none: str = ""
    """Leaves that have no gradient although a backward ran."""


def changes(report: CellReport, *, everything: bool) -> Changes:
    """Return what is shown of the tensors; *everything*: also of those that did not change."""
    listed = list(report.changes)
    if everything:
        changed = {change.name for change in listed}
        listed += [
            Change(n, ChangeKind.CHANGED, _UNCHANGED) for n in report.after if n not in changed
        ]
    rows: list[Row] = []
    groups: dict[str, list[Change]] = {}
    plain: list[str] = []
    members = Counter(owner_of(name) for name in {**report.after, **report.before})
    for change in listed:
        owner, state = owner_of(change.name), _state(change, report)
        if owner != change.name and members[owner] > 2:
            groups.setdefault(owner, []).append(change)
        elif not everything and _is_plain(change, state):
            plain.append(f"{short(change.name, MAX_NAME)} {shape_text(state)}")
        else:
            rows.append(_row(change, state))
    rows += [_folded(owner, group, report) for owner, group in groups.items()]
    if len(rows) > MAX_ROWS:
        rows = [*rows[:MAX_ROWS], Row("", f"… and {len(rows) - MAX_ROWS:,} more", "", "")]
    more = f" and {len(plain) - MAX_NAMES:,} more" if len(plain) > MAX_NAMES else ""
    return Changes(
        rows=tuple(rows),
        without_graph=", ".join(plain[:MAX_NAMES]) + more,
        still_none=names_text(_still_none(report, everything=everything)),
    )


def _still_none(report: CellReport, *, everything: bool) -> Iterator[str]:
    """Yield leaves without a gradient, if a backward ran that could have meant them."""
    calls = report.backwards
    changed = {owner_of(change.name) for change in report.changes}
    reached = {owner_of(name) for call in calls for name in call.reaches}
    # Not what lies about from other experiments.
    meant = None if everything or any(not c.reaches for c in calls) else changed | reached
    for name, state in report.after.items() if calls else ():
        waits = state.is_leaf and state.requires_grad and not _has_grad(state)
        if waits and (meant is None or owner_of(name) in meant):
            yield name


def _is_plain(change: Change, state: TensorState) -> bool:
    return change.kind is ChangeKind.ADDED and not state.requires_grad and state.grad is None


def _state(change: Change, report: CellReport) -> TensorState:
    return report.after.get(change.name) or report.before[change.name]


def _has_grad(state: TensorState) -> bool:
    return state.grad is not None and state.grad.identity is not GradChange.CLEARED


def _row(change: Change, state: TensorState) -> Row:
    sign, shape, words = _SIGNS[change.kind], "", list(change.details)
    if change.kind is ChangeKind.GONE:
        words = ["gone"]
    elif change.details == _UNCHANGED:
        sign, shape, words = " ", shape_text(state), [_graph_text(state), _grad_text(state.grad)]
    elif change.kind is ChangeKind.ADDED or "another tensor than before" in change.details:
        shape, words = shape_text(state), [_graph_text(state)]
    if change.grad is not None:
        words.append(_GRAD_WORDS[change.grad])
    text = short(", ".join(filter(None, words)))
    return Row(sign, short(change.name, MAX_NAME), short(shape, MAX_NAME), text)


def _graph_text(state: TensorState) -> str:
    if state.reaches:
        cut = " and maybe more" if state.reaches_cut else ""
        return f"connected to {names_text(state.reaches)}{cut} ({state.grad_fn})"
    if state.reaches_cut:
        return f"a graph too large to walk ({state.grad_fn})"
    if not state.is_leaf and state.requires_grad:
        return f"connected to no leaf ({state.grad_fn})"
    return "leaf, requires grad" if state.requires_grad else "no graph"


def _grad_text(grad: GradState | None) -> str:
    return "" if grad is None or grad.identity is GradChange.CLEARED else "has a grad"


def _folded(owner: str, group: list[Change], report: CellReport) -> Row:
    kinds = Counter(change.kind for change in group)
    sign = "+" if kinds[ChangeKind.ADDED] == len(group) else "~"
    if all(change.details == _UNCHANGED and change.grad is None for change in group):
        sign = " "
    elif kinds[ChangeKind.GONE] == len(group):
        sign = "-"
    words = list(_counts(owner, report))
    happened = Counter(_GRAD_WORDS[c.grad] for c in group if c.grad is not None)
    happened += Counter(d for c in group for d in c.details if d != "unchanged")
    size = sum(owner_of(name) == owner for name in {**report.after, **report.before})
    for what, number in happened.most_common(5):
        words.append(what if number == size else f"{what} ({number:,} of {size:,})")
    if kinds[ChangeKind.GONE]:
        words.append(f"{kinds[ChangeKind.GONE]:,} gone")
    rows = [_row(change, _state(change, report)) for change in group[:MAX_ITEMS]]
    items = [(row.name, ", ".join(filter(None, (row.shape, row.text)))) for row in rows]
    if len(group) > MAX_ITEMS:
        items.append((f"… and {len(group) - MAX_ITEMS:,} more", ""))
    return Row(sign, short(owner, MAX_NAME), "", short(", ".join(words)), tuple(items))


def _counts(owner: str, report: CellReport) -> Iterator[str]:
    """Yield ``12 parameters``, ``10 with gradient``, ``2 without``."""
    states = [state for name, state in report.after.items() if owner_of(name) == owner]
    leaves = [s for s in states if s.is_leaf and s.requires_grad]
    frozen = sum(s.is_parameter and not s.requires_grad for s in states)
    if not leaves and not frozen:
        if states:
            yield count(len(states), "tensor")
        return
    yield count(len(leaves) + frozen, "parameter")
    if frozen:
        yield f"{frozen:,} frozen"
    if leaves:
        with_grad = sum(map(_has_grad, leaves))
        yield f"{with_grad:,} with gradient"
        yield f"{len(leaves) - with_grad:,} without"
