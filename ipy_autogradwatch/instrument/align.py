"""Which line of the editor has what a line of a tree has, and how far to the right.

IPython hands a transformer a tree without its source. The tree may start further down
than line 1 of the editor (IPython strips leading blank lines; ``%%time`` compiles the
lines below it) and further to the right (it strips a common indent and prompts;
``%time x.data`` compiles a part of a line); and ``!command \\`` over two lines of the editor
is one line of the tree. So the names in the tree are looked for in the cell's text: where
all of them stand as they do in the tree is where the tree came from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

# What IPython writes where the user wrote ``%magic``, ``!command`` or ``%%gradcheck``.
_NOT_THE_USERS = frozenset(
    b"get_ipython run_line_magic run_cell_magic system getoutput set_next_input "
    b"_ipy_autogradwatch begin_gradcheck".split()
)
_ESCAPED = re.compile(rb"\s*[!%?]|[^#'\"]*?=\s*[!%]")

_SAMPLE = 60
"""Lines of the tree that are looked for first; a tree may be from anywhere."""
_MAX_COUNTS = 50
"""Offsets that are tried with all lines, of those at which the sample stands equally well."""

_Word = tuple[int, bytes]
"""Column in the tree, and the word that stands there."""
_Rows = dict[int, list[_Word]]
"""The words of each line of the tree."""


def editor_lines(source: str) -> list[bytes]:
    """Return the lines of *source*; only what ends a line for Python ends one here."""
    # Encoded first: in a str, a form feed or a U+2028 ends a line too.
    return source.encode("utf-8", "surrogatepass").splitlines()


class Alignment:
    """Where in the lines of the editor a tree stands."""

    def __init__(self, tree: ast.Module, lines: list[bytes], nodes: Iterable[ast.expr]) -> None:
        """Find out.

        Args:
            tree: A cell, or a piece of one.
            lines: Of the editor.
            nodes: Some of the tree that will be asked for: if these stand where the tree
                says, and the tree is as long as the cell, then so do all others.
        """
        self._lines = lines
        self._rows: _Rows = {}
        self._visible: list[int] | None = None
        self._down = 0
        self._right: dict[int, int] = {}
        last = max((node.end_lineno or 0 for node in tree.body[-1:]), default=0)
        self._last_code = _last_code_line(lines)
        self._is_plain = last >= self._last_code and all(
            _stands(lines, line, column, word) for line, column, word in _words(nodes)
        )
        if not self._is_plain:
            self._search(tree, last)

    def line(self, line: int) -> int:
        """Return the editor's line of *line* of the tree."""
        if self._is_plain:
            return line
        return self._editor_line(line, self._down)

    def right(self, line: int) -> int:
        """Return how many bytes further right the editor has *line* of the tree."""
        if self._is_plain:
            return 0
        if line not in self._right:
            row = self._rows.get(line)
            if row is None:  # Only punctuation: as far as the line above it.
                row_above = max((n for n in self._rows if n < line), default=None)
                return 0 if row_above is None else self.right(row_above)
            self._right[line] = _shift(self._text(self.line(line)), row) or 0
        return self._right[line]

    def _search(self, tree: ast.Module, last: int) -> None:
        for line, column, word in _words(ast.walk(tree)):
            if word not in _NOT_THE_USERS:
                self._rows.setdefault(line, []).append((column, word))
        self._rows = {line: sorted(row) for line, row in sorted(self._rows.items())}
        best = (len(self._rows) + 1, 0, 0)
        for visible in (None, _visible_lines(self._lines)):
            if visible is None or len(visible) < len(self._lines):
                self._visible, before = visible, self._visible
                if visible is not None:
                    self._last_code = max((n for n in visible if n <= self._last_code), default=0)
                better = self._best_offset(last, best)
                if better is None:
                    self._visible = before
                else:
                    best = better
        self._down = best[2]

    def _best_offset(self, last: int, best: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """Return (lines that are elsewhere, rank, offset) if that is better than *best*."""
        found = None
        rows = list(self._rows.items())
        sample = rows[:: len(rows) // _SAMPLE + 1]
        fewest, counted = len(sample), 0
        for down in range(len(self._lines) if self._visible is None else len(self._visible)):
            misses = self._misses(sample, down, fewest)
            if misses < fewest:
                fewest, counted = misses, 0
            counted += 1
            if misses > fewest or counted > _MAX_COUNTS:
                continue
            candidate = (self._misses(rows, down, best[0]), self._rank(down, last), down)
            if candidate < best:
                found = best = candidate
            if best[:2] == (0, 0):
                break
        return found

    def _misses(self, rows: list[tuple[int, list[_Word]]], down: int, limit: int) -> int:
        """Return how many of *rows* are elsewhere if the tree starts at *down*."""
        misses = 0
        for line, row in rows:
            misses += _shift(self._text(self._editor_line(line, down)), row) is None
            if misses > limit:
                break
        return misses

    def _rank(self, down: int, last: int) -> int:
        """Return how well it is explained that the tree starts at *down*: 0 is best."""
        first = self._editor_line(1, down)
        if self._editor_line(last, down) >= self._last_code and all(
            not line.strip() or line.lstrip().startswith(b"%%") for line in self._lines[: first - 1]
        ):
            return 0  # A cell, or the body of a cell magic.
        return 1 if self._text(first).lstrip().startswith(b"%") else 2

    def _editor_line(self, line: int, down: int) -> int:
        if self._visible is None:
            return line + down
        index = line + down - 1
        return self._visible[index] if index < len(self._visible) else len(self._lines) + 1

    def _text(self, line: int) -> bytes:
        return self._lines[line - 1] if 1 <= line <= len(self._lines) else b""


def _words(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (line, column, word) of the names and attributes among *nodes*."""
    for node in nodes:
        # What another transformer put in may stand nowhere.
        if isinstance(node, ast.Attribute):
            end_line, end_column = node.end_lineno, node.end_col_offset
            if end_line is not None and end_column is not None:
                word = node.attr.encode()
                yield end_line, end_column - len(word), word
        elif isinstance(node, ast.Name) and hasattr(node, "lineno"):
            yield node.lineno, node.col_offset, node.id.encode()


def _stands(lines: list[bytes], line: int, column: int, word: bytes) -> bool:
    return 1 <= line <= len(lines) and lines[line - 1].startswith(word, column)


def _shift(text: bytes, row: list[_Word]) -> int | None:
    """Return how far to the right all words of *row* stand in *text*; None for nowhere."""
    column, word = row[0]
    start = column
    while True:
        found = text.find(word, start)
        if found < 0:
            return None
        shift = found - column
        if all(text.startswith(other, at + shift) for at, other in row):
            return shift
        start = found + 1


def _last_code_line(lines: list[bytes]) -> int:
    for number in range(len(lines), 0, -1):
        text = lines[number - 1].strip()
        if text and not text.startswith(b"#"):
            return number
    return 0


def _visible_lines(lines: list[bytes]) -> list[int]:
    """Return the lines that have one of their own in the tree.

    The lines that continue a ``!command \\`` have none.
    """
    visible = []
    swallows = False
    for number, text in enumerate(lines, 1):
        if not swallows:
            visible.append(number)
        starts = swallows or _ESCAPED.match(text) is not None
        swallows = starts and text.rstrip().endswith(b"\\")
    return visible
