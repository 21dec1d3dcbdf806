"""From the three gradients of a backward to a verdict for each leaf.

A gradient is called wrong only when its cause was found: when the replay that does as the
user's program did at that one place gives what was delivered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from ipy_autogradwatch.prove.aten import PIECEWISE_CONSTANT, known_facts
from ipy_autogradwatch.prove.comparing import (
    Gradients,
    Question,
    Target,
    replay_gradients,
    replays_the_value,
    slopes,
)
from ipy_autogradwatch.prove.functions import FunctionCheck, check_functions
from ipy_autogradwatch.prove.nonfinite import first_nonfinite
from ipy_autogradwatch.prove.replaying import CannotReplay, Joining
from ipy_autogradwatch.prove.tape import CutKind, Op, Place

MAX_CANDIDATES = 12
"""Causes that are tried one by one."""

_TOLERANCE = {
    torch.float64: 1e-6,
    torch.complex128: 1e-6,
    torch.float32: 1e-3,
    torch.complex64: 1e-3,
}
_LOOSE = 5e-2


@dataclass(slots=True)
class Outcome:
    """What came out for one leaf.

    Attributes:
        target: The leaf.
        verdict: ``right``, ``wrong``, ``by_design``, ``vacuous`` or ``undecided``.
        reason: One sentence.
        cause: ``data``, ``write``, ``function``, ``hook``, ``nonfinite`` or an empty string.
        blame: Places, worst first, each with its share of the difference.
    """

    target: Target | None
    verdict: str
    reason: str = ""
    cause: str = ""
    blame: list[tuple[Place, float]] = field(default_factory=list)
    relative_error: float | None = None
    autograd_norm: float | None = None
    true_norm: float | None = None
    difference_norm: float | None = None
    worst: str = ""


@dataclass(slots=True)
class Judgement:
    """All that a judgement of one question goes by."""

    question: Question
    written: Gradients
    joined: Gradients
    numeric: bool
    directions: int
    tolerance: float | None
    captured: dict[int, tuple[tuple[torch.Tensor | None, ...], tuple[torch.Tensor | None, ...]]]
    low: Gradients | None = None
    functions: list[FunctionCheck] | None = None

    def delivered(self, index: int) -> torch.Tensor:
        """Return what was delivered, zeros for nothing."""
        target, replayed = self.question.targets[index], self.written.by_target[index]
        if target.delivered is None:
            return torch.zeros_like(replayed)
        return target.delivered.to(device=replayed.device, dtype=replayed.dtype)

    def tolerance_of(self, target: Target) -> float:
        """Return the relative error that is nothing but rounding."""
        return self.tolerance or _TOLERANCE.get(target.dtype, _LOOSE)

    def lower(self) -> Gradients | None:
        """Return the gradients of the replay in the user's own precision."""
        if self.low is None:
            try:
                self.low = replay_gradients(self.question, joining=Joining.AS_WRITTEN, double=False)
            except CannotReplay:
                return None
        return self.low


def judge(
    question: Question,
    *,
    numeric: bool = True,
    directions: int = 1,
    tolerance: float | None = None,
    captured: dict[int, tuple[tuple[torch.Tensor | None, ...], tuple[torch.Tensor | None, ...]]]
    | None = None,
) -> list[Outcome]:
    """Return an outcome for each target of *question*.

    Raises:
        CannotReplay: The computation does not run again.
    """
    if not question.leaf_loads():
        return [Outcome(None, "vacuous", "it depends on no leaf: there is nothing to prove")]
    captured = captured or {}
    written = replay_gradients(question, joining=Joining.AS_WRITTEN, retain=bool(captured))
    if not replays_the_value(question, written.replay):
        why = _why_not_the_value(question)
        return [Outcome(target, "undecided", why) for target in question.targets]
    joined = written
    if question.has_stops():
        joined = replay_gradients(question, joining=Joining.ALL)
    case = Judgement(question, written, joined, numeric, directions, tolerance, captured)
    outcomes = [_outcome(case, index) for index in range(len(question.targets))]
    if numeric and not written.replay.fallbacks:
        _check_numerically(case, outcomes)
    elif written.replay.fallbacks:
        names = ", ".join(sorted(written.replay.fallbacks))
        for outcome in outcomes:
            if outcome.verdict == "right":
                outcome.reason = f"equals the replay; {names} cannot be checked by differences"
    return outcomes


def _why_not_the_value(question: Question) -> str:
    if question.tape.returns:
        left, back = question.tape.returns[0]
        return f"a value left as a Python number{_at(left)} and came back{_at(back)}"
    return (
        "running it again gives another value: something outside of PyTorch (numpy, a thread) "
        "changed a tensor on the way"
    )


def _at(place: Place | None) -> str:
    return "" if place is None else f" at line {place[1]}"


def _outcome(case: Judgement, index: int) -> Outcome:
    target = case.question.targets[index]
    delivered, written = case.delivered(index), case.written.by_target[index]
    joined = case.joined.by_target[index]
    outcome = Outcome(target, "right")
    _measure(outcome, delivered, written)
    if not math.isfinite(outcome.autograd_norm or 0.0) and not bool(delivered.isfinite().all()):
        outcome.worst = _worst(delivered, written)
        return _judge_nonfinite(case, index, outcome)
    if not math.isfinite(outcome.true_norm or 0.0) and not bool(written.isfinite().all()):
        outcome.verdict, outcome.reason = "undecided", "the replayed gradient is not finite"
        return outcome
    if not _is_close(case, index, outcome, written):
        outcome.worst = _worst(delivered, written)
        return _find_cause(case, index, outcome)
    if outcome.relative_error and outcome.relative_error > case.tolerance_of(target):
        outcome.reason = "the difference is rounding: the parts of it cancel out"
    if joined is not written and _differs(case, target, written, joined):
        places = _stop_places(case.question)
        lines = ", ".join(str(line) for _, line in places[:4])
        outcome.verdict, outcome.cause = "by_design", "stop"
        outcome.blame = [(place, 1.0) for place in places[:4]]
        outcome.reason = (
            f"the full derivative differs by {_relative(joined, written):.1%}: gradients are "
            f"stopped by detach or no_grad" + (f" at line {lines}" if lines else "")
        )
    elif not outcome.autograd_norm and not joined.count_nonzero():
        flat = _flat_ops(case.question)
        outcome.verdict = "vacuous" if flat else "right"
        outcome.reason = (
            f"always zero: it goes through {flat} only" if flat else "the derivative is zero here"
        )
    elif case.question.tape.returns:
        left, back = case.question.tape.returns[0]
        outcome.verdict = "undecided"
        outcome.reason = f"a value left as a Python number{_at(left)} and came back{_at(back)}"
    return outcome


def _measure(outcome: Outcome, delivered: torch.Tensor, true: torch.Tensor) -> None:
    outcome.autograd_norm = float(delivered.norm())
    outcome.true_norm = float(true.norm())
    outcome.difference_norm = float((delivered - true).norm())
    size = max(outcome.autograd_norm, outcome.true_norm)
    outcome.relative_error = outcome.difference_norm / size if size else 0.0


def _worst(delivered: torch.Tensor, true: torch.Tensor) -> str:
    """Return the element that is off most: its index, what was delivered and what is true."""
    difference = (delivered - true).abs().nan_to_num(float("inf"))
    if not difference.numel():
        return ""
    flat = int(difference.reshape(-1).argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), tuple(difference.shape))]
    place = f"[{', '.join(map(str, index))}]" if index else ""
    got, want = delivered.reshape(-1)[flat], true.reshape(-1)[flat]
    return f"{place} delivered {_number(got)}, true {_number(want)}".strip()


def _number(value: torch.Tensor) -> str:
    number = complex(value) if value.is_complex() else float(value)
    return f"{number:.4g}"


def _relative(a: torch.Tensor, b: torch.Tensor) -> float:
    size = max(float(a.norm()), float(b.norm()))
    return float((a - b).norm()) / size if size else 0.0


def _is_close(case: Judgement, index: int, outcome: Outcome, want: torch.Tensor) -> bool:
    target = case.question.targets[index]
    difference = outcome.difference_norm or 0.0
    size = max(outcome.autograd_norm or 0.0, outcome.true_norm or 0.0)
    if difference <= case.tolerance_of(target) * size + target.noise + 1e-30:
        return True
    # Far, or cancelled: what does the same computation give in the user's precision?
    low = case.lower()
    if low is None:
        return False
    lower = low.by_target[index]
    return difference <= 30 * float((lower - want).norm())


def _differs(case: Judgement, target: Target, a: torch.Tensor, b: torch.Tensor) -> bool:
    return _relative(a, b) > 10 * case.tolerance_of(target)


def _stop_places(question: Question) -> list[Place]:
    """Return where gradients are stopped on purpose, in order."""
    found: dict[Place, None] = {}
    cuts = question.tape.cuts
    for entry in question.entries:
        if not isinstance(entry, Op):
            continue
        if entry.is_stopped and entry.place is not None:
            found[entry.place] = None
        for ref in entry.inputs:
            if ref.cut >= 0 and cuts[ref.cut].kind is CutKind.DETACH:
                place = cuts[ref.cut].place
                if place is not None:
                    found[place] = None
    return list(found)


def _flat_ops(question: Question) -> str:
    names = {
        known_facts(e.function).name.removeprefix("aten::")
        for e in question.entries
        if isinstance(e, Op) and known_facts(e.function).name in PIECEWISE_CONSTANT
    }
    return ", ".join(sorted(names))


# Causes.


def _find_cause(case: Judgement, index: int, outcome: Outcome) -> Outcome:
    for find in (_by_function, _by_write, _by_cut, _by_hook):
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


def _by_hook(case: Judgement, index: int, outcome: Outcome) -> bool:
    hooked = case.question.tape.hooked
    if not hooked:
        return False
    place, name = next(iter(hooked.items()))
    outcome.verdict, outcome.cause = "by_design", "hook"
    outcome.blame = [] if place is None else [(place, 1.0)]
    outcome.reason = f"the hook `{name}`{_at(place)} changes the gradient"
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


def _judge_nonfinite(case: Judgement, index: int, outcome: Outcome) -> Outcome:
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


# Differences.


def _check_numerically(case: Judgement, outcomes: list[Outcome]) -> None:
    for seed in range(case.directions):
        if slopes(case.question, case.joined, seed).agree:
            continue
        for outcome in outcomes:
            if outcome.verdict in ("right", "by_design") and outcome.target is not None:
                _check_one(case, outcome, seed)


def _check_one(case: Judgement, outcome: Outcome, seed: int) -> None:
    assert outcome.target is not None
    loads = case.question.loads_of(outcome.target)
    if not loads:
        return
    for step in (1e-7, 1e-6, 1e-8):
        found = slopes(case.question, case.joined, seed, step=step, only=loads)
        if found.agree:
            return
    outcome.verdict = "undecided"
    if found.is_kink:
        outcome.reason = (
            f"there is a kink: the slope is {found.left:.4g} on one side and {found.right:.4g} on "
            f"the other; autograd's choice gives {found.reverse:.4g}"
        )
    else:
        outcome.reason = (
            f"an operation's own derivative disagrees with differences: {found.reverse:.4g} "
            f"against {found.central:.4g} along a random direction"
        )
