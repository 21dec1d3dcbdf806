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
    source = program.text(statement.cell, shown)
    if not end:
        column, end = len(source) - len(source.lstrip()), len(source.encode())
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        cell=statement.cell,
        file=None,
        line=shown,
        column=column,
        end_line=shown,
        end_column=max(end, column + 1),
        headline=headline,
        evidence=evidence,
        why=why,
        instead=instead,
        variables=variables,
        source=source,
    )
