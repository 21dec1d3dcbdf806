"""What is known of one backward while it is judged, and what comes out for each leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from ipy_autogradwatch.prove.comparing import Gradients, Question, Target, replay_gradients
from ipy_autogradwatch.prove.functions import FunctionCheck
from ipy_autogradwatch.prove.replaying import CannotReplay, Joining
from ipy_autogradwatch.prove.tape import Place

Captured = Mapping[int, tuple[tuple[torch.Tensor | None, ...], tuple[torch.Tensor | None, ...]]]
"""Sequence number of a node to what its backward returned and was given."""

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
    captured: Captured
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
            self.low = lower_gradients(self.question)
        return self.low


def lower_gradients(question: Question) -> Gradients | None:
    """Return the gradients of a replay in the user's own precision, None if there is none."""
    try:
        return replay_gradients(question, joining=Joining.AS_WRITTEN, double=False)
    except CannotReplay:
        return None


def at_line(place: Place | None) -> str:
    """Return `` at line 3``, or nothing where the line is not known."""
    return "" if place is None else f" at line {place[1]}"
