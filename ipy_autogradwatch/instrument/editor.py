"""Describe a place in a tree as the user sees it in the editor: a `Site`."""

from __future__ import annotations

import ast
import re
import textwrap

from ipy_autogradwatch.instrument.align import Alignment, editor_lines
from ipy_autogradwatch.instrument.places import Place
from ipy_autogradwatch.model import Site, SiteKind, Span

_MAX_TEXT = 400
_MAX_NAME = 120
_NOT_SPACE = re.compile(rb"\S")
_NOT_PARENTHESES = re.compile(rb"#[^\n]*|[^()#]+")


class EditorSource:
    """The cell as the user sees it, and where in it a tree stands."""

    def __init__(self, tree: ast.Module, source: str, places: list[Place]) -> None:
        self._lines = editor_lines(source)
        self._at = Alignment(tree, self._lines, (place.node for place in places))
        self._statements: dict[int, str] = {}

    def site(self, place: Place, *, cell: int | None, file: str | None) -> Site:
        """Describe *place* in the user's lines, columns and words."""
        node = place.node
        span = self._span(node)
        if span.line != span.end_line:
            span = self._word(place, span)
        return Site(
            kind=place.kind,
            cell=cell,
            file=file,
            span=span,
            receiver=self._receiver(place),
            statement=self._statement(place, span.line),
            consumer=place.consumer,
            text=self._line(span.line),
        )

    def _word(self, place: Place, span: Span) -> Span:
        """Return the part of *span*, which is of several lines, that holds the word itself."""
        node = place.node
        if isinstance(node, ast.Call):
            return span if place.name is None else self._span(place.name)
        if place.kind is SiteKind.LEAF:
            return span
        start = span.end_column - len(node.attr.encode())
        return Span(span.end_line, start, span.end_line, span.end_column)

    def _span(self, node: ast.expr | ast.stmt) -> Span:
        # What another transformer put in may stand nowhere.
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = node.end_lineno or line
        end_column = node.end_col_offset
        return Span(
            self._at.line(line),
            column + self._at.right(line),
            self._at.line(end_line),
            (column if end_column is None else end_column) + self._at.right(end_line),
        )

    def _segment(self, span: Span) -> bytes:
        """Return the text of *span*, or nothing where the editor has no such lines."""
        lines = self._lines[span.line - 1 : min(span.end_line, span.line + _MAX_TEXT)]
        if len(lines) < 2:
            return b"".join(lines)[span.column : span.end_column]
        if span.line + len(lines) > span.end_line:
            lines[-1] = lines[-1][: span.end_column]
        lines[0] = lines[0][span.column :]
        return b"\n".join(lines)

    def _receiver(self, place: Place) -> str:
        node, receiver = place.node, place.receiver
        span = self._span(receiver)
        if isinstance(node, ast.Attribute):
            # Parentheses around the receiver are its, and not in its span.
            whole = self._span(node)
            start = Span(whole.line, whole.column, span.end_line, span.end_column)
            end = Span(span.end_line, span.end_column, whole.end_line, whole.end_column)
            text = self._segment(start) + _NOT_PARENTHESES.sub(b"", self._segment(end))
        else:
            text = self._segment(span)
        if not text or (b"\n" in text and b"#" in text):
            text = _unparsed(receiver).encode("utf-8", "surrogatepass")
        words = text[: 8 * _MAX_NAME].decode(errors="replace").strip()
        if "\n" in words:
            words = " ".join(words.split())
        return words if len(words) <= _MAX_NAME else words[: _MAX_NAME - 1] + "…"

    def _line(self, line: int) -> str:
        text = self._lines[line - 1] if 1 <= line <= len(self._lines) else b""
        return text.decode(errors="replace").rstrip()[:_MAX_TEXT]

    def _statement(self, place: Place, line: int) -> str:
        statement = place.statement
        if statement is None:
            return ""
        if hasattr(statement, "body") or hasattr(statement, "cases"):
            # A compound statement: the line with the access is all of it that matters.
            return self._line(line).strip()
        known = self._statements.get(id(statement))
        if known is None:
            span = self._span(statement)
            # The lines below the first are indented as in the editor; so must be that one.
            before = self._lines[span.line - 1 : span.line]
            indent = _NOT_SPACE.sub(b" ", b"".join(before)[: span.column])
            text = indent + self._segment(span)
            known = textwrap.dedent(text.decode(errors="replace")).strip()
            known = known if len(known) <= _MAX_TEXT else known[: _MAX_TEXT - 1] + "…"
            self._statements[id(statement)] = known
        return known


def _unparsed(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except RecursionError:  # CPython compiles what its own unparser cannot print.
        return "…"
