"""The function that an instrumented cell calls.

Bound to one name in ``builtins`` and in the namespace of the notebook. Knows torch only
if the notebook has imported it.

Everything here may be traced by ``torch.compile``: a test for a tensor, then
`is_compiling`, and only then state. Any other order breaks the graph or recompiles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ipy_autogradwatch.model import Part

_Value = TypeVar("_Value")

Note = Callable[[object, tuple[Any, ...], int], None]
"""Takes what a probe saw: the value, the site's constant, the part of the site."""

_ROOT = int(Part.ROOT)


class _Nothing:
    """A class without instances: what the probe waits for while nobody listens."""


def _not_compiling() -> bool:
    return False


class Probe:
    """Returns its argument; tells a listener first, if it is a tensor and there is one."""

    __slots__ = ("_is_compiling", "_note", "_tensor")

    def __init__(self) -> None:
        self.silence()

    def __call__(self, value: _Value, site: tuple[Any, ...] = (), part: int = 0) -> _Value:
        """Return *value*.

        Args:
            value: What the user's expression evaluated to.
            site: As `Site.to_constant` wrote it.
            part: A `Part`.
        """
        tensor = self._tensor
        if tensor is None:
            tensor = self._look_for_torch()
        # Not isinstance: it would ask value.__class__, which may be a property of theirs.
        if issubclass(type(value), tensor):
            if not self._is_compiling():
                self._note(value, site, part)
        elif part >= _ROOT and tensor is not _Nothing and not self._is_compiling():
            self._note(value, site, part)
        return value

    def silence(self) -> None:
        """Do nothing but return the argument, for functions that outlive the extension."""
        self._tensor: type | None = _Nothing
        self._is_compiling: Callable[[], bool] = _not_compiling
        self._note: Note = _ignore

    def listen(self, note: Note) -> None:
        """Tell *note* of every tensor from now on."""
        self._note = note
        self._tensor = None

    def _look_for_torch(self) -> type:
        torch = imported_torch()
        if torch is None:
            return _Nothing
        self._is_compiling = torch.compiler.is_compiling
        self._tensor = torch.Tensor
        tensor: type = torch.Tensor
        return tensor

    def __reduce__(self) -> tuple[Any, ...]:
        # cloudpickle sends a notebook function with the globals it names. The worker gets
        # an identity and needs neither us nor torch.
        return eval, ("lambda value, site=(), part=0: value",)


def _ignore(value: object, site: tuple[Any, ...], part: int) -> None:
    pass


def imported_torch() -> Any | None:
    """Return torch if the notebook has finished importing it, else None."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    # Its dict, not its attributes: a lazy module would be loaded by being asked.
    names = object.__getattribute__(torch, "__dict__")
    if "Tensor" not in names or "compiler" not in names:
        return None
    return None if getattr(names.get("__spec__"), "_initializing", False) else torch


PROBE = Probe()
"""The one probe of the process, whatever the number of shells."""
