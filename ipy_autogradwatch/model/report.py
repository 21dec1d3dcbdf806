"""What is said about a cell."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ipy_autogradwatch.model.proof import GradientVerdict
from ipy_autogradwatch.model.record import BackwardCall
from ipy_autogradwatch.model.tensor import GradChange, TensorState

REPORT_VERSION = 1
"""Raised when `CellReport.to_dict` changes in a way that a reader would notice."""


class Severity(str, enum.Enum):
    """How much a finding matters, worst first."""

    WRONG = "wrong"
    """The damage is done: a gradient is silently wrong or missing, or autograd raised."""
    RISKY = "risky"
    """Something has not the effect it seems to have."""
    NOTE = "note"
    """Harmless here, and worth knowing."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, at one place, explained.

    Attributes:
        code, name: Of the rule that found it.
        cell: Execution count of the cell whose source holds the line (for a function, the
            cell that defined it); None for a file.
        file: None for a cell.
        line, column, end_line, end_column: As in `Span`.
        headline: What happened, in the user's own expression.
        evidence: Label and value, to be checked by the reader.
        why: What it means, and why no error says so.
        instead: What to type, or an empty string.
        variables: Names of the tensors concerned.
        source: The whole line as it stands in the editor, indent included.
        hits: How often it happened in this cell.
    """

    code: str
    name: str
    severity: Severity
    cell: int | None
    file: str | None
    line: int
    column: int
    end_line: int
    end_column: int
    headline: str
    evidence: tuple[tuple[str, str], ...] = ()
    why: str = ""
    instead: str = ""
    variables: tuple[str, ...] = ()
    source: str = ""
    hits: int = 1


class ChangeKind(str, enum.Enum):
    """How a tensor of the namespace differs from before the cell."""

    ADDED = "added"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Change:
    """What the cell did to one tensor of the namespace.

    Attributes:
        name: What it is called.
        details: What changed, a short phrase each; empty for an added or gone tensor.
        grad: What happened to its ``.grad``, or None when there is and was none.
    """

    name: str
    kind: ChangeKind
    details: tuple[str, ...] = ()
    grad: GradChange | None = None


@dataclass(frozen=True, slots=True)
class WatcherFailure:
    """An error of our own, kept out of the user's way (see ``fence``)."""

    stage: str
    summary: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.summary}"


@dataclass(frozen=True, slots=True)
class CellReport:
    """All that is said about one cell.

    Attributes:
        cell: Execution count, as in the prompt.
        findings: Worst first; within a severity in the order of the source.
        before, after: Name to `TensorState`, of all that was found within the bounds.
            What is displayed is a choice of the renderer.
        verdicts: Empty without ``%%gradcheck``.
        failures: The watcher's own errors. Where there is one, the report is incomplete.
        changes: What differs between `before` and `after`.
        backwards: The backward calls of the cell.
        cuts: What was left out for want of time or space, a sentence each.
        gradcheck: The cell began with ``%%gradcheck``.
        error: Class and text of the exception that ended the cell, or None.
    """

    cell: int
    findings: tuple[Finding, ...] = ()
    before: Mapping[str, TensorState] = field(default_factory=dict)
    after: Mapping[str, TensorState] = field(default_factory=dict)
    verdicts: tuple[GradientVerdict, ...] = ()
    failures: tuple[WatcherFailure, ...] = ()
    changes: tuple[Change, ...] = ()
    backwards: tuple[BackwardCall, ...] = ()
    cuts: tuple[str, ...] = ()
    gradcheck: bool = False
    error: tuple[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, strings and numbers, with its ``version``.

        ``json.loads(json.dumps(report.to_dict()))`` gives back an equal dict.
        """
        plain = replace(self, before=dict(self.before), after=dict(self.after))
        listed = _jsonable(asdict(plain))
        assert isinstance(listed, dict)
        return {"version": REPORT_VERSION, **listed}


def _jsonable(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)  # JSON has no NaN and no Infinity.
    return value
