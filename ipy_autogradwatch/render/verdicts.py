"""What is shown of the verdicts of ``%%gradcheck``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ipy_autogradwatch.model import CellReport, GradientVerdict
from ipy_autogradwatch.render.words import MAX_NAME, count, names_text, short

WORST_FIRST = ("wrong", "undecided", "vacuous", "by_design", "right")
GLYPHS = {"wrong": "✖", "undecided": "?", "vacuous": "○", "by_design": "◐", "right": "✔"}
MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One line: a leaf, or all leaves of which nothing more is to be said.

    Attributes:
        error: Relative error, or an empty string.
        norms: Delivered and true norm, or an empty string.
    """

    verdict: str
    leaf: str
    error: str = ""
    norms: str = ""
    note: str = ""

    @property
    def glyph(self) -> str:
        """A sign beside the word."""
        return GLYPHS.get(self.verdict, "?")

    @property
    def word(self) -> str:
        """The verdict as a word for people."""
        return self.verdict.replace("_", " ")


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """One backward: what it started from, and a row for each leaf, worst first."""

    title: str
    rows: tuple[VerdictRow, ...]
    folded: tuple[VerdictRow, ...] = ()


def verdict_groups(report: CellReport, *, full: bool) -> tuple[VerdictGroup, ...]:
    """Return a group for each backward that was settled.

    Args:
        report: The report.
        full: A row for each leaf, also for those that are right.
    """
    groups: dict[tuple[object, str], list[GradientVerdict]] = {}
    for verdict in report.verdicts:
        groups.setdefault((verdict.backward, verdict.root), []).append(verdict)
    return tuple(_group(verdicts, report.cell, full) for verdicts in groups.values())


def _group(verdicts: list[GradientVerdict], cell: int, full: bool) -> VerdictGroup:
    first = verdicts[0]
    counts = Counter(v.verdict for v in verdicts)
    words = ", ".join(f"{counts[v]:,} {v.replace('_', ' ')}" for v in WORST_FIRST if counts[v])
    where = ""
    if first.backward is not None:
        other = "" if first.backward[0] == cell else f" of cell {first.backward[0]}"
        where = f" (backward at line {first.backward[1]}{other})"
    ordered = sorted(verdicts, key=lambda v: WORST_FIRST.index(v.verdict))
    plain = [v for v in ordered if v.verdict == "right" and not v.reason]
    told = [v for v in ordered if v not in plain]
    rows = tuple(map(_row, (ordered if full else told)[:MAX_SHOWN]))
    folded = () if full else tuple(map(_row, plain[:MAX_SHOWN]))
    if plain and not full:
        rows += (VerdictRow("right", names_text(v.leaf for v in plain)),)
    left = len(ordered if full else told) - MAX_SHOWN
    if left > 0:
        rows += (VerdictRow("undecided", f"… and {count(left, 'more leaf')}"),)
    title = f"gradients of {short(first.root, MAX_NAME)}{where}: {words}"
    return VerdictGroup(title, rows, folded)


def _row(verdict: GradientVerdict) -> VerdictRow:
    error = norms = ""
    if verdict.relative_error is not None and verdict.verdict != "vacuous":
        error = f"{verdict.relative_error:.1e}"
    if verdict.autograd_norm is not None and verdict.true_norm is not None:
        norms = f"{verdict.autograd_norm:.4g} / {verdict.true_norm:.4g}"
    return VerdictRow(
        verdict.verdict,
        short(verdict.leaf or "every leaf", MAX_NAME),
        error,
        norms,
        short(verdict.reason),
    )
