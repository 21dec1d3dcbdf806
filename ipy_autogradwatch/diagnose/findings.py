"""Ask every rule about one cell."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules import Rule

_IGNORE = re.compile(r"#\s*autogradwatch:\s*ignore(?:\[([A-Z0-9,\s]*)\])?")
_WORST_FIRST = list(Severity)


def findings(
    record: CellRecord, rules: Iterable[Rule], fence: Fence, *, ignore: Iterable[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings of *rules*, worst first and then in the order of the source.

    A rule that fails costs only its own findings: each is fenced by its code.

    Args:
        record: What was observed.
        rules: Whom to ask.
        fence: Takes what they raise.
        ignore: Codes not to report.
    """
    found: list[Finding] = []
    ignored = frozenset(ignore)
    for rule in rules:
        if rule.code not in ignored and fence.is_open(rule.code):
            with fence.guard(rule.code):
                found.extend(f for f in rule.check(record) if not _is_silenced(f))
    return tuple(sorted(found, key=lambda f: _rank(f, record.cell)))


def _is_silenced(finding: Finding) -> bool:
    """``# autogradwatch: ignore[AGW101]`` on the line, or without codes for all of them."""
    for match in _IGNORE.finditer(finding.source):
        codes = match[1]
        if codes is None or finding.code in re.split(r"[,\s]+", codes):
            return True
    return False


def _rank(finding: Finding, cell: int) -> tuple[int, int, int, int, str]:
    severity = _WORST_FIRST.index(finding.severity)
    # This cell's own lines before those of functions from earlier cells.
    other = 0 if finding.cell == cell else 1
    return severity, other, finding.line, finding.column, finding.code
