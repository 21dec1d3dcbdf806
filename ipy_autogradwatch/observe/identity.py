"""Numbers for tensor objects, so that a record can say "the same one" without keeping it."""

from __future__ import annotations

import itertools
import weakref

import torch

MAX_MAKERS = 10_000


_Entry = tuple[weakref.ref[torch.Tensor], int]


class Identities:
    """Gives each tensor object a number that it keeps for as long as it lives.

    An address alone will not do: once collected, a gradient's address comes back as that
    of another one, and "replaced" would read "unchanged".
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._makers: dict[int, tuple[int | None, int]] = {}
        self._numbers = itertools.count(1)
        self._sweep_at = 4096
        self._sweep_makers_at = 1024

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of *tensor*, always above 0."""
        entry = self._entries.get(id(tensor))
        if entry is None or entry[0]() is not tensor:
            if len(self._entries) >= self._sweep_at:
                self._sweep()
            entry = weakref.ref(tensor), next(self._numbers)
            self._entries[id(tensor)] = entry
        return entry[1]

    def note_maker(self, tensor: torch.Tensor, cell: int | None, line: int) -> None:
        """Remember which line made *tensor* a leaf; the first line is the one kept."""
        number = self.number(tensor)
        if len(self._makers) >= self._sweep_makers_at:
            self._sweep()
        if len(self._makers) >= MAX_MAKERS:
            del self._makers[next(iter(self._makers))]
        self._makers.setdefault(number, (cell, line))

    def maker(self, number: int) -> tuple[int | None, int] | None:
        """Return the (cell, line) that made a leaf of the tensor with *number*, if known."""
        return self._makers.get(number)

    def _sweep(self) -> None:
        self._entries = {key: e for key, e in self._entries.items() if e[0]() is not None}
        alive = {number for _, number in self._entries.values()}
        self._makers = {n: made for n, made in self._makers.items() if n in alive}
        self._sweep_at = max(4096, 2 * len(self._entries))
        self._sweep_makers_at = max(1024, 2 * len(self._makers))
