"""Which line of which cell led to an operation, read from the frames that called it."""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from ipy_autogradwatch.prove.tape import CutKind, Place

MAX_FRAMES = 200
MAX_DECORATORS = 10

Where = Callable[[str], tuple[int, int] | None]
"""Filename to (execution count, lines above) of a cell; None for a file."""

_APPLY: CodeType = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
_OPTIMIZERS = "/torch/optim/"
_COMPILED_AWAY = ("_compile.py", "eval_frame.py")
_ON_THE_WAY = ("LOAD_METHOD", "LOAD_ATTR")


class Origin:
    """Who called an operation.

    Attributes:
        place: The innermost line that stands in a cell.
        apply: The frame of ``Function.apply`` it runs in, or None.
        caller: The frame that called it.
        in_optimizer: It is part of an optimizer of PyTorch's.
    """

    __slots__ = ("apply", "caller", "in_optimizer", "place")

    def __init__(self, place: Place | None, apply: Any, caller: Any, in_optimizer: bool) -> None:
        self.place = place
        self.apply = apply
        self.caller = caller
        self.in_optimizer = in_optimizer


class Lines:
    """Looks up the frames of one cell's operations."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._cells: dict[CodeType, tuple[int, int] | bool | None] = {}
        self._cuts: dict[tuple[CodeType, int], CutKind | None] = {}

    def origin(self, depth: int, *, may_be_forward: bool) -> Origin:
        """Return who called, *depth* frames above the caller of this.

        Args:
            depth: Frames to leave out.
            may_be_forward: Look for ``Function.apply`` beyond the innermost cell's frame.
        """
        frame: FrameType | None = sys._getframe(depth + 1)
        while frame is not None and frame.f_code.co_filename.endswith(_COMPILED_AWAY):
            frame = frame.f_back  # torch wraps every mode's method in a function of its own.
        caller, apply, in_optimizer = frame, None, False
        cells = self._cells
        for _ in range(MAX_FRAMES):
            if frame is None:
                break
            code = frame.f_code
            cell = cells.get(code, False)
            if cell is False:
                cell = cells[code] = self._look_up(code)
            if cell is True:
                if code is _APPLY and apply is None:
                    apply = frame
                elif code is not _APPLY:
                    in_optimizer = True
            elif cell is not None:
                place = (cell[0], frame.f_lineno + cell[1])  # type: ignore[index]
                if apply is None and may_be_forward:
                    apply = _apply_above(frame)
                return Origin(place, apply, caller, in_optimizer)
            frame = frame.f_back
        return Origin(None, apply, caller, in_optimizer)

    def _look_up(self, code: CodeType) -> tuple[int, int] | bool | None:
        """Return (cell, lines above); True for code that matters otherwise, None for others."""
        if code is _APPLY or _OPTIMIZERS in code.co_filename.replace("\\", "/"):
            return True
        return self._where(code.co_filename)

    def place_here(self) -> Place | None:
        """Return the innermost line of a cell that led here."""
        return self.place_at(sys._getframe(1))

    def place_at(self, frame: FrameType | None) -> Place | None:
        """Return the innermost line of a cell from *frame* on outwards."""
        for _ in range(MAX_FRAMES):
            if frame is None:
                return None
            cell = self._where(frame.f_code.co_filename)
            if cell is not None:
                return (cell[0], frame.f_lineno + cell[1])
            frame = frame.f_back
        return None

    def place_of(self, function: Any) -> Place | None:
        """Return where *function* is written, if in a cell."""
        code: CodeType | None = getattr(function, "__code__", None)
        cell = None if code is None else self._where(code.co_filename)
        if code is None or cell is None:
            return None
        return cell[0], _line_of_def(code) + cell[1]

    def cut_kind(self, caller: FrameType | None) -> CutKind | None:
        """Return whether *caller* is at a ``.data`` or a ``.detach()``, or at neither."""
        if caller is None:
            return None
        key = (caller.f_code, caller.f_lasti)
        if key not in self._cuts:
            self._cuts[key] = _read_cut(*key)
        return self._cuts[key]


def _line_of_def(code: CodeType) -> int:
    """Return the line of the ``def``; a code object begins with its decorators."""
    for line in range(code.co_firstlineno, code.co_firstlineno + MAX_DECORATORS):
        text = linecache.getline(code.co_filename, line).lstrip()
        if text.startswith(("def ", "async def ")):
            return line
    return code.co_firstlineno


def _apply_above(frame: FrameType) -> FrameType | None:
    """Return the frame of ``Function.apply`` whose ``forward`` *frame* is or is called by."""
    up = frame.f_back
    for _ in range(MAX_FRAMES):
        if up is None or up.f_code.co_name == "run_code":
            return None
        if up.f_code is _APPLY:
            return up
        up = up.f_back
    return None


def _read_cut(code: CodeType, at: int) -> CutKind | None:
    """Read the bytecode at *at*: an attribute ``data``, or a call of ``detach``."""
    before: str | None = None
    for instruction in dis.get_instructions(code):
        name = instruction.argval if isinstance(instruction.argval, str) else ""
        if instruction.offset == at:
            if instruction.opname == "LOAD_ATTR" and name == "data":
                return CutKind.DATA
            if instruction.opname.startswith(("CALL", "PRECALL")):
                return CutKind.DETACH if before in ("detach", "detach_") else None
            return None
        if instruction.opname in _ON_THE_WAY or instruction.opname.startswith("LOAD_"):
            before = name
    return None
