"""The text of the cells that ran, for rules that ask where an error came from."""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, overload

from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.model import CellSource

MAX_CELLS = 300
MAX_CHARACTERS = 200_000
"""Of one cell; a longer one is not kept."""
MAX_FRAMES = 50

# Magics that run their body as ordinary code of the cell.
_BODY = re.compile(r"%%(?:time|timeit|capture|prun)\b.*$")
_TERMINAL_NAME = re.compile(r"<ipython-input-(\d+)-")
_TIMED = ("<timed exec>", "<timed eval>")


class _Lazy(Sequence[CellSource]):
    """The cells of a shell. Most reports never ask, and then no cell is transformed again."""

    def __init__(self, sources: Sources) -> None:
        self._read = functools.cache(sources.read)

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, index: int) -> CellSource: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CellSource]: ...
    def __getitem__(self, index: int | slice) -> CellSource | Sequence[CellSource]:
        return self._read()[index]


class Sources:
    """What the cells of one shell were, the latest few hundred of them."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._cells: deque[tuple[int, str]] = deque(maxlen=MAX_CELLS)
        self._read: dict[tuple[int, str], CellSource] = {}

    def note(self, cell: int, raw: str) -> None:
        """Remember the cell that has just run."""
        if len(raw) <= MAX_CHARACTERS:
            self._cells.append((cell, raw))

    def all(self) -> Sequence[CellSource]:
        """Return the cells in the order in which they ran; read only when asked for one."""
        return _Lazy(self)

    def read(self) -> tuple[CellSource, ...]:
        """Return them now. A cell is transformed once."""
        known = self._read
        self._read = {key: known.get(key) or self._source(*key) for key in self._cells}
        return tuple(self._read[key] for key in self._cells)

    def places(self, error: BaseException, cell: int) -> tuple[tuple[int, int], ...]:
        """Return (cell, line) of the frames of *error* that stand in cells, outermost first.

        Args:
            error: What ended the cell.
            cell: The cell that it ended.
        """
        raw = dict(self._cells)
        found: list[tuple[int, int]] = []
        frame: TracebackType | None = error.__traceback__
        for _ in range(MAX_FRAMES):
            if frame is None:
                break
            name = frame.tb_frame.f_code.co_filename
            number = cell if name in _TIMED else cell_number(self._shell, name)
            if number is not None and number in raw:
                found.append((number, frame.tb_lineno + lines_above(raw[number])))
            frame = frame.tb_next
        return tuple(found)

    def _source(self, cell: int, raw: str) -> CellSource:
        down = lines_above(raw)
        body = "".join(raw.splitlines(keepends=True)[down:])
        python = attempt(lambda: str(self._shell.transform_cell(body)), "")
        return CellSource(cell, raw, python, down)


def cell_number(shell: Any, filename: str) -> int | None:
    """Return the execution count of the cell that was compiled as *filename*, or None."""
    number: int | None = getattr(shell.compile, "_filename_map", {}).get(filename)
    if number is None:
        match = _TERMINAL_NAME.match(filename)
        number = int(match[1]) if match else None
    return number


def lines_above(raw: str) -> int:
    """Return how many lines of *raw* stand above what Python parses: blank, or ``%%time``."""
    lines = raw.splitlines()
    down = next((i for i, line in enumerate(lines) if line.strip()), 0)
    while down < len(lines) and _BODY.match(lines[down].strip()):
        down += 1
        down += next((i for i, line in enumerate(lines[down:]) if line.strip()), 0)
    return down
