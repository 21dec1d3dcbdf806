"""A finding at a statement of a cell."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ipy_autogradwatch.model import Finding
from ipy_autogradwatch.rules._source import Program, Statement

if TYPE_CHECKING:
    from ipy_autogradwatch.rules._rule import Rule


def finding_at(
    rule: Rule,
    program: Program,
    statement: Statement,
    *,
    headline: str,
    why: str,
    instead: str,
    evidence: tuple[tuple[str, str], ...] = (),
    variables: tuple[str, ...] = (),
    part: ast.AST | None = None,
    line: int | None = None,
) -> Finding:
    """Return the finding of *rule* at *statement*, or at an expression or line of it."""
    down = statement.line - statement.node.lineno
    shown = statement.line if line is None else line
    column = end = 0
    last = getattr(part, "end_lineno", None)
    if last is not None and line is None:
        shown = last + down
        if getattr(part, "lineno", None) == last:
            column = getattr(part, "col_offset", 0)
        end = getattr(part, "end_col_offset", None) or 0
    return finding_on(
        rule,
        program,
        (statement.cell, shown),
        columns=(column, end) if end else None,
        headline=headline,
        why=why,
        instead=instead,
        evidence=evidence,
        variables=variables,
    )


def finding_on(
    rule: Rule,
    program: Program,
    place: tuple[int, int],
    *,
    headline: str,
    why: str,
    instead: str,
    evidence: tuple[tuple[str, str], ...] = (),
    variables: tuple[str, ...] = (),
    columns: tuple[int, int] | None = None,
) -> Finding:
    """Return the finding of *rule* on a line: (cell, line); all of it, or some columns."""
    cell, line = place
    source = program.text(cell, line)
    if columns is None:
        columns = len(source) - len(source.lstrip()), len(source.encode())
    column, end = columns
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        cell=cell,
        file=None,
        line=line,
        column=column,
        end_line=line,
        end_column=max(end, column + 1),
        headline=headline,
        evidence=evidence,
        why=why,
        instead=instead,
        variables=variables,
        source=source,
    )
