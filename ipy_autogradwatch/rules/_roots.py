"""The way to the roots of the backwards of a cell, in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ipy_autogradwatch.model import BackwardCall, CellRecord
from ipy_autogradwatch.rules._errors import backward_roots
from ipy_autogradwatch.rules._source import Program, Statement


@dataclass(frozen=True, slots=True)
class Way:
    """What the root of one backward was computed by.

    Attributes:
        call: The backward.
        statements: That it was computed by, nearest first, its own included.
    """

    call: BackwardCall
    statements: tuple[Statement, ...]

    def readers(self, names: frozenset[str]) -> Iterator[Statement]:
        """Yield the statements on the way that read one of *names*."""
        return (statement for statement in self.statements if statement.reads & names)


def ways(record: CellRecord, program: Program) -> Iterator[Way]:
    """Yield the way to each backward of *record* that adds into ``.grad``."""
    for call in record.backwards:
        if call.site.cell is None or call.site.consumer == "grad":
            continue
        at = program.at(call.site.cell, call.site.span.line)
        if at is not None:
            names, _ = backward_roots(at)
            yield Way(call, (at, *program.backward_slice(names, at)))


def calls_in(statement: Statement) -> Iterator[ast.Call]:
    """Yield the calls in *statement* itself, without the statements inside it."""
    if isinstance(statement.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for node in ast.walk(statement.node):
        if isinstance(node, ast.Call):
            yield node
