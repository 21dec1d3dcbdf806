"""A statement of the user's, read so that parts of it can be exchanged.

All else stays as it was typed: quotes, spaces, names. Only the line breaks and comments of
a statement over several lines go, for a suggestion is one line.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterable

from ipy_autogradwatch.model import DataAccess

Edit = tuple[int, int, str]
"""Start, end and what to write there; offsets in bytes, as all that ``ast`` counts."""

# What has to stand around a header of a compound statement, or around a line of one.
_AROUND = (
    ("", ""),
    ("", " pass"),
    ("", "\ndef f(): pass"),
    ("if 0: pass\n", ""),
    ("if 0: pass\n", " pass"),
    ("try: pass\n", " pass"),
    ("match 0:\n ", " pass"),
    ("match 0:\n ", ""),
)
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
_WORD = re.compile(rb"[\s\\]*\.[\s\\]*data\Z")
_OPENING = ("(", "[", "{")
_CLOSING = (")", "]", "}")
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


class Snippet:
    """A statement on one line.

    Attributes:
        node: Its tree.
        parents: The parent of each node of the tree.
    """

    def __init__(self, text: str, module: ast.Module, skipped: int) -> None:
        self._bytes = text.encode()
        self._lines = [0]
        for line in self._bytes.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._skipped = skipped
        self.node: ast.stmt = module.body[0]
        self.parents = {
            child: parent for parent in ast.walk(module) for child in ast.iter_child_nodes(parent)
        }

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where *node* starts and ends."""
        start = self._lines[getattr(node, "lineno", 1) - 1] + getattr(node, "col_offset", 0)
        line = getattr(node, "end_lineno", None) or 1
        end = self._lines[line - 1] + (getattr(node, "end_col_offset", None) or 0)
        return start, end

    def text(self, node: ast.AST) -> str:
        """Return *node* as the user wrote it."""
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def rewritten(self, edits: Iterable[Edit], part: ast.AST | None = None) -> str:
        """Return the statement, or *part* of it, with *edits* made."""
        first, last = self._skipped, len(self._bytes)
        if part is not None:
            first, last = self.span(part)
        text = self._bytes[:last]
        for start, end, new in sorted(set(edits), reverse=True):
            if first <= start and end <= last:
                text = text[:start] + new.encode() + text[end:]
        return text[first:].decode()

    def find(self, accesses: Iterable[DataAccess]) -> dict[ast.expr, DataAccess]:
        """Return the nodes of the tree that are one of *accesses*."""
        by_receiver: dict[str, DataAccess] = {}
        for access in accesses:
            by_receiver.setdefault(_bare(access.site.receiver), access)
        found: dict[ast.expr, DataAccess] = {}
        for node in self.parents:
            if isinstance(node, ast.Attribute) and node.attr == "data":
                receiver = node.value
                text = self._receiver_text(node)
            elif isinstance(node, ast.Call) and is_data_function(node):
                receiver = node.args[0]
                text = self.text(receiver)
            else:
                continue
            for key in (_bare(text), _bare(ast.unparse(receiver))):
                match = by_receiver.get(key) or _shortened(key, by_receiver)
                if match is not None:
                    found[node] = match
                    break
        return found

    def _receiver_text(self, node: ast.Attribute) -> str:
        start, end = self.span(node)
        return _WORD.sub(b"", self._bytes[start:end]).decode()

    def without_data(self, node: ast.expr, suffix: str) -> list[Edit]:
        """Return the edits that make ``x`` and *suffix* of ``x.data`` or ``getattr(x, "data")``.

        They leave x itself alone, which may have edits of its own.
        """
        start, end = self.span(node)
        if isinstance(node, ast.Attribute):
            word = _WORD.search(self._bytes[start:end])
            return [] if word is None else [(start + word.start(), end, suffix)]
        assert isinstance(node, ast.Call)
        inner, outer = self.span(node.args[0])
        is_atom = isinstance(node.args[0], _ATOMS)
        return [
            (start, inner, "" if is_atom else "("),
            (outer, end, suffix if is_atom else ")" + suffix),
        ]


@functools.lru_cache(maxsize=256)
def read(statement: str) -> Snippet | None:
    """Return *statement* as a snippet, or None if it does not parse on its own."""
    text = _one_line(statement)
    if not text:
        return None
    for before, after in _AROUND:
        whole = before + text + after
        try:
            module = ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return Snippet(before + text, module, len(before))
    return None


def is_data_function(node: ast.Call) -> bool:
    """Whether *node* is ``getattr(x, "data")``, ``setattr`` or ``delattr`` of that name."""
    if not isinstance(node.func, ast.Name) or len(node.args) < 2:
        return False
    name = node.args[1]
    return (
        node.func.id in ("getattr", "setattr", "delattr")
        and isinstance(name, ast.Constant)
        and name.value == "data"
    )


def _bare(text: str) -> str:
    return "".join(text.split())


def _shortened(key: str, by_receiver: dict[str, DataAccess]) -> DataAccess | None:
    # A very long receiver is noted by its start alone.
    for receiver, access in by_receiver.items():
        if receiver.endswith("…") and key.startswith(receiver[:-1]):
            return access
    return None


def _one_line(text: str) -> str | None:
    """Return *text* without comments and, outside of strings, without line breaks."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    try:
        tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in _LAYOUT
        ]
    except (tokenize.TokenError, SyntaxError):
        return None
    pieces: list[str] = []
    begin = end = starts[tokens[0].start[0] - 1] + tokens[0].start[1] if tokens else 0
    for before, token in zip([*tokens[:1], *tokens], tokens, strict=False):
        if token.start[0] != before.end[0]:
            tight = before.string in _OPENING or token.string in (*_CLOSING, ".", ",")
            pieces.append(text[begin:end] + ("" if tight else " "))
            begin = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
    pieces.append(text[begin:end])
    return "".join(pieces)
