"""What a report shows, in words and in order, for `text` and `html` to lay out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ipy_autogradwatch.model import CellReport, Finding, Severity
from ipy_autogradwatch.render.changes import Changes, Row, changes
from ipy_autogradwatch.render.findings import FindingBlock, finding_block
from ipy_autogradwatch.render.gradients import GradientRow, backward_sentences, gradient_rows
from ipy_autogradwatch.render.verdicts import VerdictGroup, VerdictRow, verdict_groups
from ipy_autogradwatch.render.words import short

__all__ = [
    "FindingBlock",
    "GradientRow",
    "Outline",
    "Row",
    "VerdictGroup",
    "VerdictRow",
    "in_order",
    "outline",
]

_EXPLAINS_AN_ERROR = "AGW4"
_ABOUT_NOTES = "notes: no harm seen here; %autogradwatch report says why, and what to write instead"


@dataclass(frozen=True, slots=True)
class Outline:
    """A whole report, ready to be laid out, from top to bottom.

    Attributes:
        title: What the report says in a few words, or an empty string.
        brief: Each note is to take one line, where lines are dear.
        about_notes: What to say below notes that take one line.
        verdicts: What ``%%gradcheck`` settled, a group for each backward.
        sentences: What happened to gradients, and which tensors are new and plain.
        remarks: What is missing from the report, and why.
    """

    title: str
    findings: tuple[FindingBlock, ...] = ()
    brief: bool = False
    about_notes: str = ""
    rows: tuple[Row, ...] = ()
    sentences: tuple[str, ...] = ()
    gradients: tuple[GradientRow, ...] = ()
    remarks: tuple[str, ...] = ()
    verdicts: tuple[VerdictGroup, ...] = ()

    @property
    def is_one_line(self) -> bool:
        """Whether the title says it all."""
        return not (
            self.findings
            or self.verdicts
            or self.rows
            or self.sentences
            or self.gradients
            or self.remarks
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return self.is_one_line and not self.title


def outline(report: CellReport, *, show: str, max_findings: int = 20) -> Outline:
    """Return what is shown of *report*.

    Args:
        report: The report.
        show: ``changes``: findings and what changed. ``always``: also what did not, and each
            note in full. ``findings``: findings only. ``full``: ``always``, and a line for
            each gradient that is right. ``%%gradcheck`` without a backward is ``always``.
        max_findings: The rest is counted.
    """
    # Verdicts say the norms of gradients; what did not change would only hide them.
    surveys = report.gradcheck and not report.verdicts
    everything = surveys or show in ("always", "full")
    with_changes = everything or report.gradcheck or show == "changes"
    tensors = changes(report, everything=everything) if with_changes else Changes()
    gradients, gradients_left = (
        gradient_rows(report.after) if report.gradcheck and everything else ((), 0)
    )
    findings_left = len(report.findings) - max_findings
    remarks = [
        f"{f.stage} failed ({f.summary}); this report is incomplete" for f in report.failures
    ]
    if findings_left > 0:
        remarks.append(f"… and {findings_left:,} more findings")
    if gradients_left:
        remarks.append(f"… and {gradients_left:,} more gradients")
    remarks += report.cuts if with_changes else ()
    sentences = backward_sentences(report) if with_changes else ()
    if tensors.still_none:
        sentences += (f"grad still None: {tensors.still_none}",)
    plain = f"new, no graph: {tensors.without_graph}" if tensors.without_graph else ""
    if plain and not (report.findings or tensors.rows or sentences or gradients or remarks):
        # What most cells do is worth one quiet line.
        return Outline(plain)
    blocks = tuple(finding_block(f, report.cell) for f in in_order(report)[:max_findings])
    brief = len(blocks) > 1 and not everything
    return Outline(
        title=_title(report),
        findings=blocks,
        brief=brief,
        about_notes=_about_notes(blocks) if brief else "",
        rows=tensors.rows,
        sentences=(plain, *sentences) if plain else sentences,
        gradients=gradients,
        remarks=tuple(map(short, remarks)),
        verdicts=verdict_groups(report, full=show == "full"),
    )


def in_order(report: CellReport) -> tuple[Finding, ...]:
    """Return the findings as they are shown: first what explains the error above the report."""
    return tuple(sorted(report.findings, key=lambda f: not f.code.startswith(_EXPLAINS_AN_ERROR)))


def _about_notes(blocks: tuple[FindingBlock, ...]) -> str:
    reasons = {block.why for block in blocks if block.is_folded}
    if len(reasons) == 1 and "" not in reasons:
        return reasons.pop()
    return _ABOUT_NOTES if reasons else ""


def _title(report: CellReport) -> str:
    counts = Counter(f.severity for f in report.findings)
    words = [
        f"{counts[s]:,} {s}" + ("s" if s is Severity.NOTE and counts[s] > 1 else "")
        for s in Severity
        if counts[s]
    ]
    return ", ".join(words)
