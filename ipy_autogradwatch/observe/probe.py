"""The function that an instrumented cell calls.

Bound to one name in ``builtins`` and in the namespace of the notebook. Knows torch only
if the notebook has imported it.

Everything here may be traced by ``torch.compile``: a test for a tensor, then
`is_compiling`, and only then state. Any other order breaks the graph or recompiles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
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
        kind = type(value)
        if kind is tensor or issubclass(kind, tensor):
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
        # At once if there is one: else a function that is compiled before the probe met
        # anything would be compiled again after it.
        self._look_for_torch()

    def _look_for_torch(self) -> type:
        torch = imported_torch()
        # A compiler that traces this must not see the state change.
        if torch is None or torch.compiler.is_compiling():
            return _Nothing
        self._is_compiling = torch.compiler.is_compiling
        self._tensor = tensor = torch.Tensor
        return tensor  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        # cloudpickle sends a notebook function with the globals it names. The worker gets
        # an identity and needs neither us nor torch.
        return eval, ("lambda value, site=(), part=0: value",)


def _ignore(value: object, site: tuple[Any, ...], part: int) -> None:
    pass


def imported_torch() -> Any | None:
    """Return torch if the notebook has finished importing it, else None."""
    torch: Any = sys.modules.get("torch")
    # Its dict, not its attributes: a lazy module would be loaded by being asked.
    if type(torch) is ModuleType:
        names = torch.__dict__  # As `torch.compile` can trace it.
    elif issubclass(type(torch), ModuleType):
        names = object.__getattribute__(torch, "__dict__")
    else:
        return None  # Not imported; or a stand-in, of which there is nothing to expect.
    if not isinstance(names.get("Tensor"), type) or "compiler" not in names:
        return None
    return None if getattr(names.get("__spec__"), "_initializing", False) else torch


PROBE = Probe()
"""The one probe of the process, whatever the number of shells."""
