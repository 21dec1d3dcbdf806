"""What a report shows, in words and in order, for `text` and `html` to lay out."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ipy_autogradwatch.model import (
    BackwardCall,
    CellReport,
    Change,
    ChangeKind,
    Finding,
    GradChange,
    GradientVerdict,
    GradState,
    Severity,
    TensorState,
)

MAX_ROWS = 20
MAX_NAMES = 6
MAX_LINE = 200

_SIGNS = {ChangeKind.ADDED: "+", ChangeKind.CHANGED: "~", ChangeKind.GONE: "-"}
_GRAD_WORDS = {
    GradChange.NEW: "grad new",
    GradChange.REPLACED: "grad replaced",
    GradChange.ACCUMULATED: "grad accumulated into",
    GradChange.WRITTEN: "grad written in place",
    GradChange.CLEARED: "grad cleared",
}


@dataclass(frozen=True, slots=True)
class FindingBlock:
    """One finding. ``start`` and ``end`` are characters of ``source`` to underline."""

    severity: Severity
    code: str
    place: str
    headline: str
    source: str
    start: int
    end: int
    why: str
    evidence: tuple[tuple[str, str], ...]
    instead: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the before/after table: a sign, whom it is about, and what."""

    sign: str
    name: str
    text: str
    items: tuple[tuple[str, str], ...] = ()
    """What a folded row stands for."""


@dataclass(frozen=True, slots=True)
class GradientRow:
    """Norms of one gradient, under ``%%gradcheck``."""

    name: str
    norm: str
    max_abs: str
    mean_abs: str
    nonfinite: str
    change: str


@dataclass(frozen=True, slots=True)
class Outline:
    """A whole report, ready to be laid out."""

    findings: tuple[FindingBlock, ...]
    rows: tuple[Row, ...]
    backwards: tuple[Row, ...]
    gradients: tuple[GradientRow, ...]
    verdicts: tuple[GradientVerdict, ...]
    remarks: tuple[str, ...]
    title: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (
            self.findings
            or self.rows
            or self.backwards
            or self.gradients
            or self.verdicts
            or self.remarks
        )


def outline(report: CellReport, *, show: str, max_findings: int = 20) -> Outline:
    """Return what is shown of *report*.

    Args:
        report: The report.
        show: ``changes``: findings and what changed. ``always``: also what did not.
            ``findings``: findings only. Under ``%%gradcheck`` everything is shown.
        max_findings: The rest is counted.
    """
    everything = report.gradcheck or show == "always"
    with_changes = everything or show == "changes"
    findings = tuple(_block(f, report.cell) for f in report.findings[:max_findings])
    remarks = [
        f"{f.stage} failed ({f.summary}); this report is incomplete" for f in report.failures
    ]
    if len(report.findings) > max_findings:
        remarks.append(f"… and {len(report.findings) - max_findings} more findings")
    if with_changes:
        remarks += report.cuts
    return Outline(
        findings=findings,
        rows=_rows(report, everything=everything) if with_changes else (),
        backwards=_backward_rows(report) if with_changes else (),
        gradients=_gradient_rows(report.after) if report.gradcheck else (),
        verdicts=report.verdicts,
        remarks=tuple(map(clean, remarks)),
        title=_title(report),
    )


def clean(text: str) -> str:
    """Return *text* with control characters and bidirectional marks made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        if char == " " or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else f"\\x{ord(char):02x}"
        if ord(char) < 256
        else f"\\u{ord(char):04x}"
        for char in text
    )


def shape_text(state: TensorState) -> str:
    """Return ``(3, 4)``, with the dtype or device that differ from the common ones."""
    words = ["(no shape yet)" if state.shape is None else str(state.shape)]
    if state.dtype != "float32":
        words.append(state.dtype)
    if state.device != "cpu":
        words.append(state.device)
    return " ".join(words)


def names_text(names: Iterable[str]) -> str:
    """Return the names, the first few of them, with the members of a module folded."""
    folded: dict[str, None] = {}
    listed = list(names)
    owners = Counter(_owner(name) for name in listed)
    for name in listed:
        owner = _owner(name)
        many = owners[owner] > 2 and owner != name
        folded[f"{owner} ({owners[owner]} leaves)" if many else name] = None
    shown = list(folded)[:MAX_NAMES]
    more = len(folded) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _title(report: CellReport) -> str:
    counts = Counter(f.severity for f in report.findings)
    words = [
        f"{counts[s]} {s}" + ("s" if s is Severity.NOTE and counts[s] > 1 else "")
        for s in Severity
        if counts[s]
    ]
    return ", ".join(words)


def _block(finding: Finding, cell: int) -> FindingBlock:
    source = finding.source
    raw = source.encode()
    start = len(raw[: finding.column].decode(errors="replace"))
    last = finding.end_column if finding.end_line == finding.line else len(raw)
    end = max(start + 1, len(raw[:last].decode(errors="replace")))
    indent = len(source) - len(source.lstrip())
    stripped = source.strip()[:MAX_LINE]
    if clean(stripped) == stripped:
        start, end = max(0, start - indent), min(len(stripped), end - indent)
    else:  # Escapes move the columns; underline nothing rather than the wrong thing.
        stripped, start, end = clean(stripped.replace("\t", " ")), 0, 0
    return FindingBlock(
        severity=finding.severity,
        code=finding.code,
        place=_place(finding, cell),
        headline=clean(finding.headline),
        source=stripped,
        start=start,
        end=end,
        why=clean(finding.why),
        evidence=tuple((label, clean(value)) for label, value in finding.evidence),
        instead=clean(finding.instead),
    )


def _place(finding: Finding, cell: int) -> str:
    line = f"line {finding.line}"
    if finding.file is not None:
        return clean(f"{finding.file}, {line}")
    # Not this cell's number: it differs from run to run, and the report hangs below it.
    return line if finding.cell in (None, cell) else f"cell {finding.cell}, {line}"


def _owner(name: str) -> str:
    match = re.match(r"[^.\[]+", name)
    return name if match is None else match[0]


def _rows(report: CellReport, *, everything: bool) -> tuple[Row, ...]:
    rows: list[Row] = []
    groups: dict[str, list[Change]] = {}
    changes = list(report.changes)
    if everything:
        changed = {change.name for change in changes}
        changes += [
            Change(n, ChangeKind.CHANGED, ("unchanged",)) for n in report.after if n not in changed
        ]
    members = Counter(_owner(name) for name in (*report.after, *report.before))
    plain: list[str] = []
    for change in changes:
        owner = _owner(change.name)
        if owner != change.name and members[owner] > 2:
            groups.setdefault(owner, []).append(change)
            continue
        state = report.after.get(change.name) or report.before[change.name]
        if change.kind is ChangeKind.ADDED and not state.requires_grad and state.grad is None:
            plain.append(f"{clean(change.name)} {shape_text(state)}")
        else:
            rows.append(_row(change, state, report))
    rows += [_folded(owner, group, report) for owner, group in groups.items()]
    if plain:
        shown = ", ".join(plain[:MAX_NAMES])
        more = f" and {len(plain) - MAX_NAMES} more" if len(plain) > MAX_NAMES else ""
        rows.append(Row("+", shown + more, "no graph"))
    if len(rows) > MAX_ROWS:
        rest = len(rows) - MAX_ROWS
        rows = [*rows[:MAX_ROWS], Row("", f"… and {rest} more", "")]
    return tuple(rows)


def _row(change: Change, state: TensorState, report: CellReport) -> Row:
    sign = " " if change.details == ("unchanged",) else _SIGNS[change.kind]
    words: list[str] = []
    if change.kind is ChangeKind.ADDED or "another tensor than before" in change.details:
        words += [shape_text(state), _graph_text(state)]
    elif change.kind is ChangeKind.GONE:
        words.append("gone")
    elif sign == " ":
        words += [shape_text(state), _graph_text(state), _grad_text(state.grad)]
    else:
        words += change.details
    if change.grad is not None:
        words.append(_GRAD_WORDS[change.grad])
    return Row(sign, clean(change.name), clean(", ".join(filter(None, words))))


def _graph_text(state: TensorState) -> str:
    if state.reaches:
        cut = " (and maybe more)" if state.reaches_cut else ""
        return f"← {names_text(state.reaches)}{cut}  [{state.grad_fn}]"
    if state.reaches_cut:
        return f"a graph too large to walk  [{state.grad_fn}]"
    if not state.is_leaf and state.requires_grad:
        return f"connected to no leaf  [{state.grad_fn}]"
    return "leaf, requires grad" if state.requires_grad else "no graph"


def _grad_text(grad: GradState | None) -> str:
    return "" if grad is None or grad.identity is GradChange.CLEARED else "has a grad"


def _folded(owner: str, group: list[Change], report: CellReport) -> Row:
    states = [s for name, s in report.after.items() if _owner(name) == owner]
    leaves = [s for s in states if s.is_leaf and s.requires_grad]
    with_grad = sum(
        s.grad is not None and s.grad.identity is not GradChange.CLEARED for s in leaves
    )
    kinds = Counter(change.kind for change in group)
    words = [_count(len(leaves), "parameter") if leaves else _count(len(states), "tensor")]
    if leaves:
        frozen = sum(s.is_parameter and not s.requires_grad for s in states)
        if frozen:
            words.append(f"{frozen} frozen")
        words.append(f"{with_grad} with gradient")
        words.append(f"{len(leaves) - with_grad} without")
    grads = Counter(_GRAD_WORDS[c.grad] for c in group if c.grad is not None)
    words += [f"{word} ({n})" for word, n in grads.items()]
    details = Counter(d for c in group for d in c.details if d != "unchanged")
    words += [f"{detail} ({n})" for detail, n in list(details.items())[:3]]
    if kinds[ChangeKind.GONE]:
        words.append(f"{kinds[ChangeKind.GONE]} gone")
    sign = "+" if kinds[ChangeKind.ADDED] == len(group) else "~"
    if all(change.details == ("unchanged",) and change.grad is None for change in group):
        sign = " "
    items = tuple(
        (
            clean(c.name),
            clean(_row(c, report.after.get(c.name) or report.before[c.name], report).text),
        )
        for c in group[: 5 * MAX_ROWS]
    )
    return Row(sign, clean(owner), ", ".join(words), items)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _backward_rows(report: CellReport) -> tuple[Row, ...]:
    return tuple(_backward_row(call, report.cell) for call in report.backwards[:MAX_ROWS])


def _backward_row(call: BackwardCall, cell: int) -> Row:
    site = call.site
    if site.file is not None:
        place = f"{site.file}, line {site.span.line}"
    elif site.cell in (None, cell):
        place = f"line {site.span.line}"
    else:
        place = f"cell {site.cell}, line {site.span.line}"
    roots = ", ".join(call.roots[:MAX_NAMES])
    if call.reaches:
        text = f"from {roots} to {names_text(call.reaches)}"
        if call.cut:
            text += " (and maybe more: the graph was too large to walk)"
    elif call.cut:
        text = f"from {roots}; the graph was too large to walk"
    elif call.requires_grad:
        text = f"from {roots} reaches no leaf"
    else:
        text = f"from {roots}, which has no graph: it was computed without one, or cut from it"
    if call.hits > 1:
        text += f" ({call.hits:,} times)"
    return Row("backward", clean(place), clean(text))


def _gradient_rows(after: Iterable[str] | dict[str, TensorState]) -> tuple[GradientRow, ...]:
    assert isinstance(after, dict)
    rows = [
        GradientRow(
            name=clean(name),
            norm=_number(state.grad.norm),
            max_abs=_number(state.grad.max_abs),
            mean_abs=_number(state.grad.mean_abs),
            nonfinite="0" if not state.grad.nonfinite else str(state.grad.nonfinite),
            change=str(state.grad.identity),
        )
        for name, state in after.items()
        if state.grad is not None and state.grad.norm is not None
    ]
    return tuple(rows[: 5 * MAX_ROWS])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
