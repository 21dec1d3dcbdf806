"""What the rules that explain an error of autograd share."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipy_autogradwatch.model import CellRecord, Finding
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_on

if TYPE_CHECKING:
    from ipy_autogradwatch.rules._rule import Rule


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of autograd, and where in the user's cells it came up.

    Attributes:
        match: Of the error's text.
        cell, line: Of the innermost frame that stands in a cell.
        statement: What stands there, or None where the source is not known.
        program: All cells that ran.
    """

    match: re.Match[str]
    cell: int
    line: int
    statement: Statement | None
    program: Program

    @property
    def line_text(self) -> str:
        """The line itself, or something that stands for it."""
        return self.program.text(self.cell, self.line).strip() or "this line"


def failure(record: CellRecord, pattern: str) -> Failure | None:
    """Return the error that ended the cell if its text matches *pattern*."""
    if record.error is None or not record.error_at:
        return None
    match = re.search(pattern, record.error[1])
    if match is None:
        return None
    program = Program(record.sources)
    cell, line = record.error_at[-1]
    return Failure(match, cell, line, program.at(cell, line), program)


def finding(
    rule: Rule,
    failure: Failure,
    *,
    headline: str,
    why: str,
    instead: str,
    at: Statement | None = None,
    part: ast.AST | None = None,
    line: int | None = None,
    evidence: tuple[tuple[str, str], ...] = (),
) -> Finding:
    """Return the finding of *rule* at a statement, a part of it, a line, or where it failed."""
    cell = failure.cell if at is None else at.cell
    shown = line if line is not None else (failure.line if at is None else at.line)
    columns = None
    if part is not None and at is not None:
        down = at.line - at.node.lineno
        first = getattr(part, "lineno", at.node.lineno) + down
        shown = (getattr(part, "end_lineno", None) or first - down) + down
        source = failure.program.text(cell, shown)
        end = getattr(part, "end_col_offset", None) or len(source.encode())
        start = getattr(part, "col_offset", 0)
        columns = start if first == shown else len(source) - len(source.lstrip()), end
    return finding_on(
        rule,
        failure.program,
        (cell, shown),
        columns=columns,
        headline=headline,
        why=why,
        instead=instead,
        evidence=evidence,
    )


def given_to(statement: Statement | None, *names: str) -> tuple[str, ast.AST | None]:
    """Return what the first call or attribute of one of *names* is about, and where it stands.

    That is ``x`` of ``x.numpy()``, or the first argument of ``np.asarray(x)``.
    """
    nodes = list(ast.walk(statement.node)) if statement is not None else []
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in names and not _is_module(node.value):
            return ast.unparse(node.value), node.value
    for node in nodes:
        if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in names and node.args:
            return ast.unparse(node.args[0]), node.args[0]
    return "", None


def _is_module(node: ast.expr) -> bool:
    return dotted(node).split(".")[0] in ("torch", "np", "numpy", "nn", "F", "optim", "copy", "plt")


def backward_roots(statement: Statement | None) -> tuple[list[str], str]:
    """Return the names that a backward in *statement* starts from, and how it is written."""
    if statement is None:
        return [], ""
    for part in ast.walk(statement.node):
        if not isinstance(part, ast.Call) or not isinstance(part.func, ast.Attribute):
            continue
        if part.func.attr == "backward" and not dotted(part.func.value).endswith("autograd"):
            return _names(part.func.value), ast.unparse(part.func.value)
        if part.func.attr in ("backward", "grad") and part.args:
            return _names(part.args[0]), ast.unparse(part.args[0])
    return [], ""


def _names(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)] + [
        dotted(n) for n in ast.walk(node) if isinstance(n, ast.Attribute) and dotted(n)
    ]
