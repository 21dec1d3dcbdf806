"""A call of a custom ``torch.autograd.Function``, read from the frame that makes it."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

import torch

from ipy_autogradwatch.prove.lines import Lines
from ipy_autogradwatch.prove.tape import FunctionCall, Ref


def new_call(
    frame: FrameType, sequence: int, lines: Lines, read: Callable[[torch.Tensor], Ref]
) -> FunctionCall:
    """Return the call that runs in *frame*, of ``Function.apply``.

    Args:
        frame: Its.
        sequence: Number of its node.
        lines: To look up where it is called, and where its backward is written.
        read: Puts a tensor on the tape.
    """
    variables = frame.f_locals
    cls, given = variables.get("cls"), variables.get("args", ())
    is_own = isinstance(cls, type) and not cls.__module__.startswith("torch.")
    return FunctionCall(
        # PyTorch's own (a reentrant checkpoint) have no name here: they are only joined.
        name=cls.__name__ if is_own and isinstance(cls, type) else "",
        sequence=sequence,
        inputs=tuple(read(item) if isinstance(item, torch.Tensor) else None for item in given),
        place=lines.place_at(frame.f_back),
        backward=lines.place_of(getattr(cls, "backward", None)),
    )
