"""What is shown of backward calls, and of the gradients they delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipy_autogradwatch.model import BackwardCall, CellReport, TensorState
from ipy_autogradwatch.render.changes import MAX_ITEMS, MAX_ROWS
from ipy_autogradwatch.render.findings import place_text
from ipy_autogradwatch.render.words import MAX_NAME, MAX_NAMES, names_text, short


@dataclass(frozen=True, slots=True)
class GradientRow:
    """Norms of one gradient, under ``%%gradcheck``."""

    name: str
    norm: str
    max_abs: str
    mean_abs: str
    nonfinite: str
    change: str


def backward_sentences(report: CellReport) -> tuple[str, ...]:
    """Return a sentence for each backward site: where, from what, to which leaves."""
    sentences = [_sentence(call, report.cell) for call in report.backwards[:MAX_ROWS]]
    if len(report.backwards) > MAX_ROWS:
        sentences.append(f"… and {len(report.backwards) - MAX_ROWS:,} more lines with a backward")
    return tuple(sentences)


def gradient_rows(after: Mapping[str, TensorState]) -> tuple[tuple[GradientRow, ...], int]:
    """Return a row for each gradient that was measured, and how many are left out."""
    rows = [
        GradientRow(
            name=short(name, MAX_NAME),
            norm=_number(state.grad.norm),
            max_abs=_number(state.grad.max_abs),
            mean_abs=_number(state.grad.mean_abs),
            nonfinite=f"{state.grad.nonfinite or 0:,}",
            change=str(state.grad.identity),
        )
        for name, state in after.items()
        if state.grad is not None and state.grad.norm is not None
    ]
    return tuple(rows[:MAX_ITEMS]), max(0, len(rows) - MAX_ITEMS)


def _sentence(call: BackwardCall, cell: int) -> str:
    site = call.site
    place = place_text(site.cell, site.file, site.span.line, cell)
    # A loop's roots by the one word that stands in the source, not by where each went.
    names = call.roots if call.hits == 1 or len(call.roots) == 1 else (site.receiver,)
    roots = ", ".join(short(root, MAX_NAME) for root in names[:MAX_NAMES])
    if call.reaches:
        text = f"from {roots} to {names_text(call.reaches)}"
        if call.cut:
            text += " and maybe more: the graph was too large to walk"
    elif call.cut:
        text = f"from {roots}; the graph was too large to walk"
    elif call.requires_grad:
        text = f"from {roots} reaches no leaf"
    else:
        text = f"from {roots}, which has no graph"
    times = f" ({call.hits:,} times)" if call.hits > 1 else ""
    return f"backward at {place}: {text}{times}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
