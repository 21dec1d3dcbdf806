"""What is shown of a finding."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ipy_autogradwatch.model import Finding, Severity
from ipy_autogradwatch.render.words import short, window

MAX_SOURCE = 160
"""Columns of a source line."""


@dataclass(frozen=True, slots=True)
class FindingBlock:
    """One finding.

    Attributes:
        before, hit, after: The source line; ``hit`` is the part to underline.
        instead: What to type, or advice in words.
        instead_is_code: It is the former.
    """

    severity: Severity
    code: str
    place: str
    headline: str
    before: str
    hit: str
    after: str
    why: str
    evidence: tuple[tuple[str, str], ...]
    instead: str
    instead_is_code: bool

    @property
    def is_folded(self) -> bool:
        """Whether its headline is enough until somebody asks."""
        return self.severity is Severity.NOTE


def finding_block(finding: Finding, cell: int) -> FindingBlock:
    """Return what is shown of *finding* below *cell*."""
    before, hit, after = _parts(finding)
    return FindingBlock(
        severity=finding.severity,
        code=finding.code,
        place=place_text(finding.cell, finding.file, finding.line, cell),
        headline=short(finding.headline, 300),
        before=before,
        hit=hit,
        after=after,
        why=short(finding.why),
        evidence=tuple((short(label, 60), short(value, 300)) for label, value in finding.evidence),
        instead=short(finding.instead, 300),
        instead_is_code=_is_code(finding.instead[:300]),
    )


def place_text(cell: int | None, file: str | None, line: int, here: int) -> str:
    """Return ``line 3``, with the cell or file when that is not the cell that just ran."""
    if file is not None:
        return short(f"{file[-80:]}, line {line}")
    # Not this cell's number: it differs from run to run, and the report hangs below it.
    return f"line {line}" if cell in (None, here) else f"cell {cell}, line {line}"


def _is_code(text: str) -> bool:
    """Whether *text* is Python, with an ellipsis where something is left out."""
    if "\\" in text:
        return True  # Not parsed: an escape that Python does not know would warn once more.
    try:
        ast.parse(text.replace("…", "..."))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _parts(finding: Finding) -> tuple[str, str, str]:
    """Return the source line before, in and after the finding's span, bounded and clean."""
    raw = finding.source.encode(errors="surrogatepass")
    # Python counts columns in bytes of UTF-8.
    start = finding.column
    end = finding.end_column if finding.end_line == finding.line else len(raw)
    parts = raw[:start], raw[start : max(start, end)], raw[max(start, end) :]
    before, hit, after = (part.decode(errors="surrogatepass") for part in parts)
    # Cut before cleaning, which is slow, and after it, for escapes are longer.
    pieces = window(before.lstrip(), hit.rstrip("\r\n"), after.rstrip(), MAX_SOURCE)
    before, hit, after = (short(piece.replace("\t", " ")) for piece in pieces)
    return window(before, hit, after, MAX_SOURCE)
