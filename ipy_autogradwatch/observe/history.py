"""What is remembered of leaves from one backward to the next: numbers and counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.tensor_facts import grad, version

MAX_LEAVES = 512
MAX_LATE = 64
MAX_ROOTS = 256

_Constant = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Before:
    """A leaf right before a backward: its counter, and its gradient's number and counter."""

    version: int | None
    grad_number: int | None
    grad_version: int | None


class LeafHistory:
    """How the leaves of a shell were at the latest backwards, the oldest forgotten first.

    Attributes:
        roots: Sequence numbers of the nodes that the latest backwards started from.
    """

    def __init__(self) -> None:
        self._before: dict[int, _Before] = {}
        self.roots: deque[int] = deque(maxlen=MAX_ROOTS)
        self._made: dict[int, tuple[_Constant, int]] = {}

    def uncleared(self, leaves: Iterable[torch.Tensor], identities: Identities) -> list[int]:
        """Take note of *leaves* right before a backward; return those not cleared in time.

        A gradient that a backward is about to add to is that of an earlier step if it is the
        very one which the backward before left (its counter says that nothing else has
        written it), and its leaf was updated since. Deliberate accumulation has no update in
        between; ``zero_grad``, ``zero_()`` and clipping show in the gradient.
        """
        found: list[int] = []
        for leaf in leaves:
            number = identities.number(leaf)
            gradient = grad(leaf)
            now = _Before(
                version=version(leaf),
                grad_number=None if gradient is None else identities.number(gradient),
                grad_version=None if gradient is None else version(gradient),
            )
            then = self._before.pop(number, None)
            if then is not None and _is_left_over(then, now):
                found.append(number)
            if len(self._before) >= MAX_LEAVES:
                del self._before[next(iter(self._before))]
            self._before[number] = now
        return found

    def made_leaf(self, number: int, site: _Constant, sequence: int) -> None:
        """Remember the line that made a tensor a leaf, and when: nodes count as a clock."""
        self._made.pop(number, None)
        if len(self._made) >= MAX_LATE:
            del self._made[next(iter(self._made))]
        self._made[number] = site, sequence

    def made_after(self, sequence: int, reached: Iterable[int]) -> list[_Constant]:
        """Return the sites that made a leaf after *sequence*, of leaves that are not *reached*."""
        known = set(reached)
        return [
            site
            for number, (site, made) in self._made.items()
            if made > sequence and number not in known
        ]


def _is_left_over(then: _Before, now: _Before) -> bool:
    if now.grad_number is None or None in (then.version, now.version):
        return False
    if now.version == then.version:
        return False  # Nothing was updated in between.
    if then.grad_number is None:
        return now.grad_version == 0
    return (
        now.grad_number == then.grad_number
        and then.grad_version is not None
        and now.grad_version == then.grad_version + 1
    )
