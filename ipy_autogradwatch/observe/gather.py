"""What the probes of one cell saw.

Runs in the middle of the user's cell, so it is short: the first hits of a site are looked
at, then every hit whose count is a power of two; the others are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipy_autogradwatch.model import Part
from ipy_autogradwatch.observe.backward_sites import BackwardSites, is_tensor
from ipy_autogradwatch.observe.data_sites import DataSites
from ipy_autogradwatch.observe.graph import WalkBudget
from ipy_autogradwatch.observe.history import LeafHistory
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.tensor_facts import is_leaf, metadata_only
from ipy_autogradwatch.observe.writes import Writes, sequence_nr

_Constant = tuple[Any, ...]
_ROOT, _LEAF = int(Part.ROOT), int(Part.LEAF)


class Gathering:
    """What the probes saw while one cell ran.

    Attributes:
        data: Its ``.data``.
        backward: Its backwards.
    """

    def __init__(
        self,
        identities: Identities,
        writes: Writes,
        history: LeafHistory,
        *,
        walks: WalkBudget,
        checks: WalkBudget,
    ) -> None:
        self.data = DataSites(identities, writes)
        self.backward = BackwardSites(identities, writes, history, walks=walks, checks=checks)
        self._history = history
        self._identities = identities
        # In the order of `Part`.
        self._takers: tuple[Callable[[Any, _Constant], None], ...] = (
            self.data.receiver,
            self.data.alias,
            self.data.value,
            self.backward.root,
            self.backward.argument,
            self.backward.function,
            self._leaf,
        )

    def take(self, value: object, site: _Constant, part: int) -> None:
        """Take what a probe saw; *part* is a `Part`."""
        if _ROOT <= part < _LEAF or is_tensor(value):
            self._takers[part](value, site)

    def _leaf(self, tensor: Any, site: _Constant) -> None:
        """A tensor that a call has just made a leaf."""
        with metadata_only():
            if is_leaf(tensor):
                self._identities.note_maker(tensor, site[1], site[3][0])
                self._history.made_leaf(self._identities.number(tensor), site, sequence_nr() or 0)
