"""From the three gradients of a backward to a verdict for each leaf.

A gradient is called wrong only when its cause was found: when the replay that does as the
user's program did at that one place gives what was delivered.
"""

from __future__ import annotations

import math

import torch

from ipy_autogradwatch.prove.aten import PIECEWISE_CONSTANT, known_facts
from ipy_autogradwatch.prove.case import Captured, Judgement, Outcome, at_line, lower_gradients
from ipy_autogradwatch.prove.causes import find_cause, judge_nonfinite
from ipy_autogradwatch.prove.comparing import (
    Question,
    Target,
    replay_gradients,
    replays_the_value,
)
from ipy_autogradwatch.prove.differences import slopes
from ipy_autogradwatch.prove.replaying import Joining
from ipy_autogradwatch.prove.tape import CutKind, Op, Place


def judge(
    question: Question,
    *,
    numeric: bool = True,
    directions: int = 1,
    tolerance: float | None = None,
    captured: Captured | None = None,
) -> list[Outcome]:
    """Return an outcome for each target of *question*.

    Raises:
        CannotReplay: The computation does not run again.
    """
    if _begins_elsewhere(question):
        why = "a part of it was computed in a cell that was not checked"
        return [Outcome(target, "undecided", why) for target in question.targets] or [
            Outcome(None, "undecided", why)
        ]
    if not question.leaf_loads():
        return [Outcome(None, "vacuous", "it depends on no leaf: there is nothing to prove")]
    captured = captured or {}
    written = replay_gradients(question, joining=Joining.AS_WRITTEN, retain=bool(captured))
    low = None
    if not replays_the_value(question, written.replay):
        # Half precision may be far off in a sum: then the same precision must give the same.
        low = lower_gradients(question)
        if low is None or not replays_the_value(question, low.replay):
            why = _why_not_the_value(question)
            return [Outcome(target, "undecided", why) for target in question.targets]
    joined = written
    if question.has_stops():
        joined = replay_gradients(question, joining=Joining.ALL)
    case = Judgement(question, written, joined, numeric, directions, tolerance, captured, low)
    outcomes = [_outcome(case, index, outcome) for index, outcome in enumerate(_measured(case))]
    if numeric and not written.replay.fallbacks:
        _check_numerically(case, outcomes)
    elif written.replay.fallbacks:
        names = ", ".join(sorted(written.replay.fallbacks))
        for outcome in outcomes:
            if outcome.verdict == "right":
                outcome.reason = f"equals the replay; {names} cannot be checked by differences"
    return outcomes


def _begins_elsewhere(question: Question) -> bool:
    """Whether a gradient goes on into a graph that is not on the tape."""
    return any(
        isinstance(entry, Op) and not entry.is_stopped and any(r.is_foreign for r in entry.inputs)
        for entry in question.entries
    )


def _why_not_the_value(question: Question) -> str:
    if question.tape.returns:
        left, back = question.tape.returns[0]
        return f"a value left as a Python number{at_line(left)} and came back{at_line(back)}"
    return (
        "running it again gives another value: something outside of PyTorch (numpy, a thread) "
        "changed a tensor on the way"
    )


def _measured(case: Judgement) -> list[Outcome]:
    """Return an outcome for each target, with its norms: all of them in a few calls."""
    count = len(case.question.targets)
    if not count:
        return []
    delivered = [case.delivered(index) for index in range(count)]
    true = case.written.by_target
    apart = torch._foreach_sub(delivered, true)
    norms = [[float(n) for n in torch._foreach_norm(ts)] for ts in (delivered, true, apart)]
    outcomes = []
    for target, got, want, difference in zip(case.question.targets, *norms, strict=True):
        size = max(got, want)
        outcomes.append(
            Outcome(
                target,
                "right",
                relative_error=difference / size if size else 0.0,
                autograd_norm=got,
                true_norm=want,
                difference_norm=difference,
            )
        )
    return outcomes


def _outcome(case: Judgement, index: int, outcome: Outcome) -> Outcome:
    target = case.question.targets[index]
    delivered, written = case.delivered(index), case.written.by_target[index]
    joined = case.joined.by_target[index]
    if not math.isfinite(outcome.autograd_norm or 0.0) and not bool(delivered.isfinite().all()):
        outcome.worst = _worst(delivered, written)
        return judge_nonfinite(case, index, outcome)
    if not math.isfinite(outcome.true_norm or 0.0) and not bool(written.isfinite().all()):
        outcome.verdict, outcome.reason = "undecided", "the replayed gradient is not finite"
        return outcome
    if not _is_close(case, index, outcome, written):
        outcome.worst = _worst(delivered, written)
        return find_cause(case, index, outcome)
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
        outcome.reason = (
            f"a value left as a Python number{at_line(left)} and came back{at_line(back)}"
        )
    return outcome


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
    largest = max((t.delivered_norm for t in case.question.targets), default=0.0)
    if difference <= 100 * torch.finfo(target.dtype).eps * largest:
        return True  # Noise beside the gradients of other leaves.
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
