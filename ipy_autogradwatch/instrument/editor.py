"""From positions in a tree to positions in the cell as the user sees it.

IPython hands a transformer a tree without its source. The tree may start further down
than line 1 of the editor (IPython strips leading blank lines; ``%%time`` compiles the
lines below it) and further to the right (it strips a common indent and prompts;
``%time x.data`` compiles a part of a line). So the names in the tree are looked for in
the cell's text: where all of them stand at the same distance is where the tree came from.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from ipy_autogradwatch.instrument.places import Place
from ipy_autogradwatch.model import Site, SiteKind, Span

_MAX_ANCHORS = 60
_MAX_TEXT = 400
_MAX_NAME = 120
# What IPython writes where the user wrote ``%magic``, ``!command`` or ``%%gradcheck``.
_NOT_THE_USERS = frozenset(
    b"get_ipython run_line_magic run_cell_magic system getoutput set_next_input "
    b"_ipy_autogradwatch begin_gradcheck".split()
)

_Anchor = tuple[int, int, bytes]
"""Line and column in the tree, and the word that stands there."""


class EditorSource:
    """The cell as the user sees it, and where in it a tree stands."""

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._lines = [line.encode() for line in source.splitlines()]
        words = [anchor for anchor in _words(tree) if anchor[2] not in _NOT_THE_USERS]
        self._down = self._find_offset(words[:: max(1, len(words) // _MAX_ANCHORS)])
        self._words = {line: (column, word) for line, column, word in reversed(words)}
        self._right: dict[int, int] = {}

    def site(self, place: Place, *, cell: int | None, file: str | None) -> Site:
        """Describe *place* in the user's lines, columns and words."""
        node = place.node
        span = self._span(node)
        if place.kind is not SiteKind.LEAF and isinstance(node, ast.Attribute):
            # In a chain over several lines, the line is that of the word itself.
            word = len(node.attr)
            if span.line != span.end_line:
                span = Span(span.end_line, span.end_column - word, span.end_line, span.end_column)
        return Site(
            kind=place.kind,
            cell=cell,
            file=file,
            span=span,
            receiver=self._receiver(place),
            statement=self._statement(place),
            consumer=place.consumer,
            text=self._line(span.line),
        )

    def _find_offset(self, anchors: list[_Anchor]) -> int:
        """Return how many lines further down the editor has what the tree has."""
        best, most = 0, 0
        for down in range(len(self._lines)):
            matched = self._matched(anchors, down)
            if matched > most:
                best, most = down, matched
            if matched == len(anchors):
                break
        return best

    def _matched(self, anchors: list[_Anchor], down: int) -> int:
        """Return how many words stand where they should if the tree stands at *down*."""
        shifts: dict[int, int | None] = {}
        matched = 0
        for line, column, word in anchors:
            if line not in shifts:
                shifts[line] = self._shift(line + down, column, word)
            shift = shifts[line]
            if shift is None or line + down > len(self._lines):
                continue
            matched += self._lines[line + down - 1].startswith(word, column + shift)
        return matched

    def _shift(self, line: int, column: int, word: bytes) -> int | None:
        """Return how many bytes further right *word* stands in the editor's *line*."""
        if not 1 <= line <= len(self._lines):
            return None
        text = self._lines[line - 1]
        if text.startswith(word, column):
            return 0
        found = text.find(word, column)
        return None if found < 0 else found - column

    def _span(self, node: ast.expr) -> Span:
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset or node.col_offset
        return Span(
            node.lineno + self._down,
            node.col_offset + self._moved_right(node.lineno),
            end_line + self._down,
            end_column + self._moved_right(end_line),
        )

    def _moved_right(self, line: int) -> int:
        """Return how many bytes further right the editor has *line* of the tree."""
        if line not in self._right:
            column, word = self._words.get(line, (0, b""))
            self._right[line] = self._shift(line + self._down, column, word) or 0
        return self._right[line]

    def _segment(self, span: Span) -> str:
        """Return the text of *span*, or nothing where the editor has no such lines."""
        lines = self._lines[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines = [*lines[:-1], lines[-1][: span.end_column]] if span.end_column else lines
        lines[0] = lines[0][span.column :]
        return b"\n".join(lines).decode(errors="replace")

    def _receiver(self, place: Place) -> str:
        node, receiver = place.node, place.receiver
        if isinstance(node, ast.Attribute):
            # Up to the dot, so that parentheses around the receiver are kept.
            text = self._segment(self._span(node)).rpartition(".")[0]
        else:
            text = self._segment(self._span(receiver))
        return textwrap.shorten(text or ast.unparse(receiver), _MAX_NAME, placeholder="…")

    def _line(self, line: int) -> str:
        text = self._lines[line - 1] if 1 <= line <= len(self._lines) else b""
        return text.decode(errors="replace").rstrip()[:_MAX_TEXT]

    def _statement(self, place: Place) -> str:
        statement = place.statement
        if statement is None:
            return ""
        line = statement.lineno + self._down
        body = getattr(statement, "body", None)
        if isinstance(body, list):
            # A compound statement: the line with the access is all of it that matters.
            first = last = (place.node.end_lineno or place.node.lineno) + self._down
        else:
            first, last = line, (statement.end_lineno or statement.lineno) + self._down
        lines = self._lines[first - 1 : last]
        text = textwrap.dedent(b"\n".join(lines).decode(errors="replace")).strip()
        return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _words(tree: ast.Module) -> Iterator[_Anchor]:
    # ast.walk is iterative and goes breadth first.
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.col_offset, node.id.encode()
        elif isinstance(node, ast.Attribute) and node.end_lineno and node.end_col_offset:
            word = node.attr.encode()
            yield node.end_lineno, node.end_col_offset - len(word), word
