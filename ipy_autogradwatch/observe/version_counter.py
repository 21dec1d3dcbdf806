"""Watch a tensor's version counter without keeping the tensor, or its memory."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ipy_autogradwatch.fence import attempt

_peek: Any = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


def counter_of(alias: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor that shares the version counter of *alias*, and not its storage.

    None where that cannot be had: an inference tensor has no counter, and under a mode or a
    functorch transform `detach` would be seen by somebody.

    ``detach`` shares the counter of what it is called on, and ``.data =`` exchanges the
    storage and leaves the counter (torch/csrc/autograd/VariableTypeManual.cpp, `detach`).
    """
    if torch._C._len_torch_dispatch_stack() or _in_transform():
        return None
    with torch._C.DisableTorchFunction():
        if attempt(lambda: alias.is_inference(), True):
            return None
        return attempt(lambda: _without_storage(alias.detach()), None)


def _without_storage(counter: torch.Tensor) -> torch.Tensor:
    # A meta tensor refuses another device's storage, and has none to keep alive.
    if not counter.is_meta:
        counter.data = _no_storage()
    return counter


@functools.cache
def _no_storage() -> torch.Tensor:
    # Not at import, which may come under a mode of the user's.
    return torch.empty(0, device="cpu")


def _in_transform() -> bool:
    return _peek is not None and _peek() is not None
