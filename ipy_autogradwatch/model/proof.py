"""What ``%%gradcheck`` settles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GradientVerdict:
    """Whether the gradient delivered to one leaf is the derivative of what was computed.

    Attributes:
        verdict: ``right``, ``wrong``, ``by_design``, ``vacuous`` or ``undecided``.
        relative_error, autograd_norm, true_norm: None where they could not be computed.
        difference_norm: Of delivered minus true.
        worst: The element that is off most, and by how much.
        reason: One sentence.
        cause: What kind of thing made it so: ``data``, ``write``, ``outside`` (memory
            written by numpy or the like), ``function``, ``hook``,
            ``nonfinite``, ``stop``, or an empty string.
        blame: (cell, line) of what made the gradient wrong.
        shares: Of the difference, for each of `blame`.
        backward: (cell, line) of the backward.
    """

    leaf: str
    root: str
    verdict: str
    relative_error: float | None = None
    autograd_norm: float | None = None
    true_norm: float | None = None
    reason: str = ""
    blame: tuple[tuple[int | None, int], ...] = ()
    shares: tuple[float, ...] = ()
    difference_norm: float | None = None
    worst: str = ""
    cause: str = ""
    backward: tuple[int | None, int] | None = None
