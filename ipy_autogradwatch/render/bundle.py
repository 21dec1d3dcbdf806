"""A report as one mimebundle; the front end chooses."""

from __future__ import annotations

from typing import Any

from ipy_autogradwatch.model import REPORT_VERSION, CellReport
from ipy_autogradwatch.render.html import as_html
from ipy_autogradwatch.render.outline import in_order, outline
from ipy_autogradwatch.render.text import as_text
from ipy_autogradwatch.render.words import short

MIME_JSON = "application/vnd.autogradwatch+json"


def mimebundle(
    report: CellReport, *, show: str, max_findings: int, width: int, color: bool
) -> dict[str, Any] | None:
    """Return *report* as ``text/plain``, ``text/html`` and a small JSON, or None if empty.

    The JSON is stored in the notebook, so it holds the findings and no tensor state; the
    whole report is `CellReport.to_dict`.
    """
    shown = outline(report, show=show, max_findings=max_findings)
    if shown.is_empty:
        return None
    return {
        "text/plain": as_text(shown, width=width, color=color),
        "text/html": as_html(shown),
        MIME_JSON: {
            "version": REPORT_VERSION,
            "findings": [
                {
                    "code": finding.code,
                    "severity": finding.severity.value,
                    "line": finding.line,
                    "column": finding.column,
                    "end_line": finding.end_line,
                    "end_column": finding.end_column,
                    "headline": short(finding.headline),
                    "instead": short(finding.instead),
                }
                for finding in in_order(report)[:max_findings]
            ],
        },
    }
