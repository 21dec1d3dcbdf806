"""See every backward of a cell: ``Tensor.backward``, ``autograd.backward`` and ``grad``.

All of them, also inside libraries, end in one function of ``torch.autograd``. While a checked
cell runs, that name stands for `Interception`; it runs the same function once, with the same
arguments, and is put back when the cell ends.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

_NAME = "_engine_run_backward"


@dataclass(frozen=True, slots=True)
class BackwardRequest:
    """The arguments of one backward.

    Attributes:
        roots, seeds: What it starts from, and the gradient that it starts with.
        inputs: Whose gradients are asked for; empty for all leaves.
        accumulates: Gradients go to ``.grad``, rather than being returned.
    """

    roots: tuple[torch.Tensor, ...]
    seeds: tuple[torch.Tensor | None, ...]
    inputs: tuple[torch.Tensor, ...]
    retains: bool
    creates_graph: bool
    accumulates: bool


class Interception:
    """Calls back around each backward of the thread that installed it, but not inside one."""

    def __init__(
        self,
        before: Callable[[BackwardRequest], Any],
        after: Callable[[Any, Any], None],
        failed: Callable[[Any], None],
    ) -> None:
        self._before = before
        self._after = after
        self._failed = failed
        self._original: Any = None
        self._thread = threading.get_ident()
        self._inside = False

    def install(self) -> None:
        """Begin to listen."""
        self._original = getattr(torch.autograd, _NAME)
        setattr(torch.autograd, _NAME, self)

    def remove(self) -> None:
        """Put PyTorch's own function back."""
        if getattr(torch.autograd, _NAME) is self:
            setattr(torch.autograd, _NAME, self._original)

    def __call__(self, t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the backward that was asked for."""
        __tracebackhide__ = True
        if self._inside or threading.get_ident() != self._thread:
            return self._original(t_outputs, *args, **kwargs)
        self._inside = True
        pending = self._before(_request(t_outputs, args, kwargs))
        came_back = False
        try:
            result = self._original(t_outputs, *args, **kwargs)
            came_back = True
            self._after(pending, result)
        finally:
            self._inside = False
            if not came_back:
                self._failed(pending)
        return result


def _request(outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BackwardRequest:
    seeds, retains, creates, inputs, *_ = args
    roots = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
    return BackwardRequest(
        roots=roots,
        seeds=tuple(seeds) if isinstance(seeds, (tuple, list)) else (seeds,),
        inputs=tuple(t for t in inputs if isinstance(t, torch.Tensor)),
        retains=bool(retains),
        creates_graph=bool(creates),
        accumulates=bool(kwargs.get("accumulate_grad", True)),
    )


def is_supported() -> bool:
    """Whether this PyTorch has the function that is listened to."""
    return inspect.isfunction(getattr(torch.autograd, _NAME, None))
