"""The terms of the sum that a backward starts from, and those among them without a graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ipy_autogradwatch.model import CellRecord
from ipy_autogradwatch.rules._roots import Way, ways
from ipy_autogradwatch.rules._source import Program, Statement, dotted

MAX_DEPTH = 3
# Constants that are meant: they shift a value and train nothing.
_MEANT = re.compile(r"base|target|goal|old|prev|avg|mean|ema|running|best|log|const|offset")
_STOPS = ("detach", "item", "tolist", "numpy", "argmax", "argmin")


@dataclass(frozen=True, slots=True)
class ConstantTerm:
    """A term of the root that has no graph, while the root has one.

    Attributes:
        text: As the user wrote it.
        at: The statement that adds it up.
        statements: That it was computed by, nearest first; `at` is first where the term is
            no name.
    """

    way: Way
    text: str
    at: Statement
    statements: tuple[Statement, ...]


def constant_terms(record: CellRecord, program: Program) -> Iterator[ConstantTerm]:
    """Yield the terms without a graph of the roots of the cell, as far as the record tells."""
    if record.error is not None:
        return
    for way in ways(record, program):
        if not way.call.requires_grad:
            continue
        for term, at in _terms(way):
            names = _names(term)
            if _is_constant(record, term, names) and not _calls_a_function(program, names):
                inner = program.backward_slice(sorted(names | _stopped(term)), at)
                start = () if isinstance(term, ast.Name) else (at,)
                yield ConstantTerm(way, ast.unparse(term), at, (*start, *inner))


def _calls_a_function(program: Program, names: frozenset[str]) -> bool:
    """Whether one of *names* is a function of a cell: it may well know of parameters."""
    return any(
        isinstance(statement.node, ast.FunctionDef) and statement.node.name in names
        for statement in program.newest_first()
    )


def _is_constant(record: CellRecord, term: ast.expr, names: frozenset[str]) -> bool:
    if isinstance(term, ast.Name) and _MEANT.search(term.id):
        return False
    known = 0
    for name in names:
        state = record.after.get(name)
        if state is not None:
            if state.requires_grad or not state.dtype.startswith(("float", "bfloat", "int")):
                return False
            known += 1
        elif any(
            other.startswith((f"{name}.", f"{name}[")) and held.requires_grad
            for other, held in record.after.items()
        ):
            return False  # A module, or a list of tensors.
    return bool(known) or (not isinstance(term, ast.Name) and bool(_stopped(term)))


def _names(term: ast.expr) -> frozenset[str]:
    """Return the names that *term* reads, other than inside ``x.detach()`` and the like."""
    found: set[str] = set()
    todo: list[ast.AST] = [term]
    while todo:
        node = todo.pop()
        if _is_stop(node):
            continue
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and dotted(node):
            found |= {dotted(node), dotted(node).partition(".")[0]}
            continue
        todo += ast.iter_child_nodes(node)
    return frozenset(found)


def _stopped(term: ast.expr) -> frozenset[str]:
    """Return the names that *term* reads inside ``x.detach()`` and the like."""
    return frozenset(
        part.id
        for node in ast.walk(term)
        if _is_stop(node)
        for part in ast.walk(node)
        if isinstance(part, ast.Name)
    )


def _is_stop(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "data"
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _STOPS
    )


def _terms(way: Way) -> Iterator[tuple[ast.expr, Statement]]:
    """Yield the terms that are added up to the root, and where."""
    start = way.statements[0]
    todo = [(value, start, 0) for value in _roots(start)]
    while todo:
        value, at, depth = todo.pop()
        terms = list(_summands(value))
        for term in terms:
            if len(terms) > 1:
                yield term, at
            if isinstance(term, ast.Name) and depth < MAX_DEPTH:
                todo += [
                    (statement.node.value, statement, depth + 1)
                    for statement in way.statements[1:]
                    if isinstance(statement.node, ast.Assign)
                    and term.id in statement.targets
                    and statement.scope == at.scope
                ]


def _roots(at: Statement) -> Iterator[ast.expr]:
    for node in ast.walk(at.node):
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "backward":
            yield function.value


def _summands(value: ast.expr) -> Iterator[ast.expr]:
    """Yield ``a``, ``b`` and ``c`` of ``a + 2 * b - c / 3``."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from _summands(value.left)
        yield from _summands(value.right)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Div)):
        if isinstance(value.left, ast.Constant):
            yield from _summands(value.right)
        elif isinstance(value.right, ast.Constant):
            yield from _summands(value.left)
        else:
            yield value
    elif isinstance(value, ast.UnaryOp):
        yield from _summands(value.operand)
    else:
        yield value
