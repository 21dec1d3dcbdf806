"""Why a delivered gradient is not the replayed one.

A cause counts when it was tried: the replay that does as the user's program did, at that
one place, gives what was delivered.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ipy_autogradwatch.prove.case import Judgement, Outcome, at_line
from ipy_autogradwatch.prove.comparing import Gradients, Question, replay_gradients
from ipy_autogradwatch.prove.functions import check_functions
from ipy_autogradwatch.prove.nonfinite import first_nonfinite
from ipy_autogradwatch.prove.replaying import CannotReplay, Joining, Replay, variables
from ipy_autogradwatch.prove.tape import CutKind, Home, Op, Place

MAX_CANDIDATES = 12
"""Causes that are tried one by one."""


def find_cause(case: Judgement, index: int, outcome: Outcome) -> Outcome:
    """Return *outcome* with the cause of the difference, or undecided without one."""
    for find in (_by_function, _by_write, _by_cut, _by_outside, _by_hook):
        if find(case, index, outcome):
            return outcome
    outcome.verdict = "undecided"
    outcome.reason = (
        f"delivered and replayed gradient differ by {outcome.relative_error:.2g}, "
        "and no cause was found that explains it"
    )
    return outcome


def _explains(case: Judgement, index: int, gradients: Gradients) -> float:
    """Return the share of the difference that is gone in *gradients*."""
    delivered, written = case.delivered(index), case.written.by_target[index]
    whole = float((delivered - written).norm())
    rest = float((delivered - gradients.by_target[index]).norm())
    return 1 - rest / whole if whole else 0.0


def _by_function(case: Judgement, index: int, outcome: Outcome) -> bool:
    if case.functions is None:
        case.functions = check_functions(case.question, case.written, case.captured)
    wrong = [check for check in case.functions if not check.is_right]
    if not wrong:
        return False
    worst = max(wrong, key=lambda check: check.relative_error)
    name = worst.call.name
    outcome.blame = [
        (place, 1.0) for place in (worst.call.backward, worst.call.place) if place is not None
    ]
    outcome.cause = "function"
    if all(check.is_surrogate for check in wrong):
        outcome.verdict = "by_design"
        outcome.reason = f"{name}.backward gives a gradient of its own: {worst.surrogate}"
        return True
    outcome.verdict = "wrong"
    outcome.reason = (
        f"{name}.backward is not the derivative of {name}.forward: off by "
        f"{worst.relative_error:.2g} for input {worst.position}"
    )
    return True


def _by_cut(case: Judgement, index: int, outcome: Outcome) -> bool:
    cuts = case.question.tape.cuts
    used = sorted({
        ref.cut
        for entry in case.question.entries
        if isinstance(entry, Op)
        for ref in entry.inputs
        if ref.cut >= 0 and cuts[ref.cut].kind is CutKind.DATA and ref not in entry.written
    } | {r.cut for r, _ in case.question.roots if r.cut >= 0})  # fmt: skip
    if not used:
        return False
    everything = _try(case, literal_cuts=frozenset(used))
    if everything is None or _explains(case, index, everything) < 0.9:
        return False
    shares = _shares(case, index, used)
    outcome.cause = "data"
    outcome.blame = shares
    lines = ", ".join(str(place[1]) for place, _ in shares[:4])
    if not case.delivered(index).count_nonzero():
        outcome.verdict = "by_design"
        outcome.reason = f"no gradient comes through the .data at line {lines}"
        return True
    outcome.verdict = "wrong"
    outcome.reason = f"the part that goes through .data at line {lines} has no gradient"
    return True


def _shares(case: Judgement, index: int, used: list[int]) -> list[tuple[Place, float]]:
    by_place: dict[Place, list[int]] = {}
    for cut in used:
        place = case.question.tape.cuts[cut].place
        if place is not None:
            by_place.setdefault(place, []).append(cut)
    if len(by_place) == 1:
        return [(place, 1.0) for place in by_place]
    shares = []
    for place, cuts in list(by_place.items())[:MAX_CANDIDATES]:
        alone = _try(case, literal_cuts=frozenset(cuts))
        share = 0.0 if alone is None else _explains(case, index, alone)
        if abs(share) > 0.01:
            shares.append((place, round(share, 3)))
    return sorted(shares, key=lambda item: -item[1]) or [(place, 1.0) for place in by_place]


def _by_write(case: Judgement, index: int, outcome: Outcome) -> bool:
    writes = list(_unseen_writes(case.question))
    if not writes:
        return False
    found: list[tuple[Place, float]] = []
    by_place: dict[Place, list[Op]] = {}
    for op in writes:
        if op.place is not None:
            by_place.setdefault(op.place, []).append(op)
    for place, ops in list(by_place.items())[:MAX_CANDIDATES]:
        alone = _try(case, literal_writes=ops)
        share = 0.0 if alone is None else _explains(case, index, alone)
        if share > 0.05:
            found.append((place, round(share, 3)))
    together = _try(case, literal_writes=writes)
    if not found or together is None or _explains(case, index, together) < 0.9:
        return False
    outcome.verdict, outcome.cause = "wrong", "write"
    outcome.blame = sorted(found, key=lambda item: -item[1])
    lines = ", ".join(str(place[1]) for place, _ in outcome.blame[:4])
    outcome.reason = f"backward used values that line {lines} had overwritten, or edited unseen"
    return True


def _unseen_writes(question: Question) -> Iterable[Op]:
    """Yield operations that wrote through ``.data`` into what the slice reads."""
    homes = {ref.view[0] for e in question.entries if isinstance(e, Op) for ref in e.inputs} | {
        e.home for e in question.leaf_loads()
    }
    cuts = question.tape.cuts
    for entry in question.tape.entries:
        if isinstance(entry, Op) and any(
            r.view[0] in homes and r.cut >= 0 and cuts[r.cut].kind is CutKind.DATA
            for r in entry.written
        ):
            yield entry


def _by_outside(case: Judgement, index: int, outcome: Outcome) -> bool:
    """Was memory that backward needed written where PyTorch does not see it, as by numpy?"""
    changed = _changed_outside(case.question)
    if not changed:
        return False
    try:
        found = replay_gradients(
            case.question, joining=Joining.AS_WRITTEN, memory=changed, retain=False
        )
    except CannotReplay:
        return False
    if _explains(case, index, found) < 0.9:
        return False
    places = [
        cut.place
        for cut in case.question.tape.cuts
        if cut.home in changed and cut.place is not None
    ]
    outcome.verdict, outcome.cause = "wrong", "outside"
    outcome.blame = [(place, 1.0) for place in dict.fromkeys(places[-1:])]
    outcome.reason = (
        "backward used memory that was written outside of PyTorch, through an array made"
        f"{at_line(places[-1] if places else None) or ' of it'}"
    )
    return True


def _changed_outside(question: Question) -> dict[Home, torch.Tensor]:
    """Return the memory, as it is now, of homes that do not hold what was computed into them."""
    seen_cut = {cut.home for cut in question.tape.cuts}
    wanted = {
        home
        for entry in question.entries
        if isinstance(entry, Op)
        for home in entry.homes()
        if home in seen_cut and isinstance(question.tape.memory.get(home), torch.UntypedStorage)
    }
    if not wanted:
        return {}
    values = variables(question.leaf_loads(), double=False)
    try:
        replay = Replay(
            question.tape, question.tape.entries, values, joining=Joining.ALL, double=False
        ).run()
    except CannotReplay:
        return {}
    changed = {}
    for home in wanted:
        there = replay.content(home).detach()
        now = torch.empty(0, dtype=there.dtype).set_(question.tape.memory[home])
        if now.numel() == there.numel() and not torch.allclose(now, there, 1e-3, 1e-5):
            changed[home] = now.clone()
    return changed


def _by_hook(case: Judgement, index: int, outcome: Outcome) -> bool:
    hooked = case.question.tape.hooked
    if not hooked:
        return False
    place, name = next(iter(hooked.items()))
    outcome.verdict, outcome.cause = "by_design", "hook"
    outcome.blame = [] if place is None else [(place, 1.0)]
    outcome.reason = f"the hook `{name}`{at_line(place)} changes the gradient"
    return True


def _try(
    case: Judgement,
    *,
    literal_cuts: frozenset[int] = frozenset(),
    literal_writes: Iterable[Op] = (),
) -> Gradients | None:
    try:
        return replay_gradients(
            case.question,
            joining=Joining.AS_WRITTEN,
            literal_cuts=literal_cuts,
            literal_writes=literal_writes,
        )
    except CannotReplay:
        return None


def judge_nonfinite(case: Judgement, index: int, outcome: Outcome) -> Outcome:
    """Return *outcome* of a gradient with NaN or Inf, with the operation that made it."""
    outcome.cause = "nonfinite"
    count = int((~case.delivered(index).isfinite()).sum())
    found = first_nonfinite(case.question)
    outcome.verdict = "wrong"
    outcome.reason = f"{count:,} of {case.delivered(index).numel():,} elements are NaN or Inf"
    if found is None:
        outcome.verdict = "undecided"
        return outcome
    outcome.reason += f": {found.sentence}"
    outcome.blame = [(place, 1.0) for place in found.places]
    if not found.is_backward:
        outcome.verdict = "undecided"
    return outcome
