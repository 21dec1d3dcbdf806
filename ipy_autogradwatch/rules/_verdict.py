"""A finding where a verdict of ``%%gradcheck`` puts the blame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ipy_autogradwatch.model import CellRecord, Finding, GradientVerdict
from ipy_autogradwatch.rules._source import Program
from ipy_autogradwatch.rules._statement import finding_on

if TYPE_CHECKING:
    from ipy_autogradwatch.rules._rule import Rule

Place = tuple[int | None, int]


def wrong_by_place(
    record: CellRecord, *causes: str
) -> Iterator[tuple[Place, tuple[GradientVerdict, ...]]]:
    """Yield each first blame of verdicts that are wrong by *causes*, with these verdicts."""
    found: dict[Place, list[GradientVerdict]] = {}
    for verdict in record.verdicts:
        proved = verdict.verdict == "wrong" or verdict.cause == "nonfinite"
        if proved and verdict.cause in causes and (verdict.blame or verdict.verdict == "wrong"):
            place = verdict.blame[0] if verdict.blame else verdict.backward
            if place is not None:
                found.setdefault(place, []).append(verdict)
    for place, verdicts in found.items():
        yield place, tuple(verdicts)


def leaves(verdicts: tuple[GradientVerdict, ...]) -> tuple[str, ...]:
    """Return the leaves of *verdicts*, without repeats."""
    return tuple(dict.fromkeys(verdict.leaf for verdict in verdicts))


def evidence(verdicts: tuple[GradientVerdict, ...]) -> tuple[tuple[str, str], ...]:
    """Return what a reader can check: the norms, and the element that is off most."""
    lines: list[tuple[str, str]] = []
    for verdict in verdicts[:4]:
        if verdict.autograd_norm is not None and verdict.true_norm is not None:
            text = f"norm {verdict.autograd_norm:.4g} delivered, {verdict.true_norm:.4g} true"
            if verdict.relative_error is not None:
                text += f", off by {verdict.relative_error:.2g}"
            lines.append((verdict.leaf, text))
    if verdicts[0].worst:
        lines.append(("worst element", verdicts[0].worst))
    backward = verdicts[0].backward
    if backward is not None:
        lines.append(("proved at", f"the backward at line {backward[1]}"))
    return tuple(lines)


def shares(verdict: GradientVerdict) -> tuple[tuple[str, str], ...]:
    """Return what each line has to do with the difference, where there are several."""
    if len(verdict.blame) < 2:
        return ()
    return tuple(
        ("share", f"line {line}: {share:.0%}")
        for (_, line), share in zip(verdict.blame, verdict.shares, strict=True)
    )


def finding(
    rule: Rule,
    record: CellRecord,
    place: Place,
    verdicts: tuple[GradientVerdict, ...],
    *,
    headline: str,
    why: str,
    instead: str,
    more: tuple[tuple[str, str], ...] = (),
) -> Finding | None:
    """Return the finding of *rule* at *place*, or None where its source is not known."""
    cell, line = place
    program = Program(record.sources)
    if cell is None or not program.text(cell, line).strip():
        return None
    return finding_on(
        rule,
        program,
        (cell, line),
        headline=headline,
        why=why,
        instead=instead,
        evidence=(*evidence(verdicts), *more),
        variables=leaves(verdicts),
    )
