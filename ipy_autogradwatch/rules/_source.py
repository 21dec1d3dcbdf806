"""The source of the cells that ran, as statements: who assigned a name, and from what.

Nothing is parsed before a rule has evidence of harm and asks where it came from. The answer
is what the source says; whether it happened is for the rule to know from the record.
"""

from __future__ import annotations

import ast
import functools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ipy_autogradwatch.model import CellSource

MAX_SLICE = 400
MAX_CELLS = 300
SECONDS = 0.05
"""How long the questions of one rule about one cell may take together."""
_FILLS = ("append", "extend", "insert", "appendleft")
_NO_GRAD = ("no_grad", "inference_mode", "set_grad_enabled")


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One simple statement, or the header of a compound one.

    Attributes:
        cell: Execution count.
        line, end_line: As the user sees them.
        scope: Where it stands: empty for the top level, ``f``, ``Net.forward``.
        loops: Lines of the loops around it, outermost first.
        under: Lines of the ``no_grad`` and ``inference_mode`` blocks around it.
        targets: Names and dotted names that it assigns.
        reads: Names and dotted names that it reads.
        node: The statement itself.
    """

    cell: int
    line: int
    end_line: int
    scope: str
    loops: tuple[int, ...]
    under: tuple[int, ...]
    targets: frozenset[str]
    reads: frozenset[str]
    node: ast.stmt

    @property
    def is_in_place(self) -> bool:
        """Whether it writes into what a name holds: ``x[i] = …``, ``x += …``, ``x.add_(…)``."""
        return bool(in_place_targets(self.node))


class Program:
    """All cells that ran, in the order in which they ran.

    A question is answered within `SECONDS` of the first one, or by less than all there is.
    """

    def __init__(self, sources: Iterable[CellSource]) -> None:
        self._cells = list(sources)
        self._position = {source.cell: index for index, source in enumerate(self._cells)}
        self._deadline = time.perf_counter() + SECONDS

    def statements(self, cell: int) -> tuple[Statement, ...]:
        """Return the statements of *cell*, in source order."""
        index = self._position.get(cell)
        return () if index is None else _read(self._cells[index]).statements

    def at(self, cell: int, line: int) -> Statement | None:
        """Return the innermost statement at *line* of *cell*."""
        found = [s for s in self.statements(cell) if s.line <= line <= s.end_line]
        return min(found, key=lambda s: s.end_line - s.line) if found else None

    def newest_first(self) -> Iterator[Statement]:
        """Yield all statements, the latest cell's last one first."""
        for source in reversed(self._cells):
            if time.perf_counter() > self._deadline:
                return
            yield from reversed(_read(source).statements)

    def parameter_of(self, function: str, position: int) -> Iterator[tuple[str, str, int]]:
        """Yield scope, name and cell of a parameter of the latest function of that name."""
        for statement in self.newest_first():
            node = statement.node
            if isinstance(node, ast.FunctionDef) and node.name == function and not statement.scope:
                if position < len(node.args.args):
                    yield function, node.args.args[position].arg, statement.cell
                return

    def text(self, cell: int, line: int) -> str:
        """Return *line* of *cell* as the user sees it."""
        index = self._position.get(cell)
        lines = [] if index is None else self._cells[index].raw.splitlines()
        return lines[line - 1].rstrip() if 1 <= line <= len(lines) else ""

    def assignments(self, name: str, at: Statement) -> Iterator[Statement]:
        """Yield the statements that may have assigned *name* when *at* ran, the likeliest first.

        In the same scope: those above it, nearest first; in a common loop also those below,
        for the round before; at the top level then those of earlier cells, latest first.
        """
        index = self._position.get(at.cell)
        if index is None:
            return
        mine = [s for s in _read(self._cells[index]).assign(name) if s.scope == at.scope]
        above = [s for s in mine if s.line <= at.line and s is not at]
        yield from reversed(above)
        if at.loops:
            yield from (s for s in mine if s.line > at.line and s.loops[:1] == at.loops[:1])
            if at in mine:
                yield at
        if any(_ran_before(s, at) for s in above):
            return
        for source in reversed(self._cells[:index]):
            if time.perf_counter() > self._deadline:
                return
            found = [s for s in _read(source).assign(name) if s.scope == ""]
            yield from reversed(found)
            if found:
                return

    def backward_slice(self, names: Iterable[str], at: Statement) -> list[Statement]:
        """Return the statements that what *at* sees in *names* was computed by, nearest first.

        Calls of functions defined in cells lead into their ``return``; a call of a variable
        that holds a module defined in a cell leads into its ``forward``.
        """
        found: dict[Statement, None] = {}
        queue = [(name, at) for name in names]
        asked: set[tuple[str, Statement]] = set()
        while queue and len(found) < MAX_SLICE and time.perf_counter() < self._deadline:
            name, place = queue.pop(0)
            if (name, place) in asked:
                continue
            asked.add((name, place))
            nearest = True
            for statement in self.assignments(name, place):
                found[statement] = None
                queue += [(read, statement) for read in sorted(statement.reads)]
                surely = _ran_before(statement, place) or not statement.loops
                if nearest and surely and not _updates(statement, name):
                    break  # It replaced whatever the name held before.
                nearest = False
            for inner in self._returns(name, place):
                found[inner] = None
                queue += [(read, inner) for read in sorted(inner.reads)]
        return list(found)

    def _returns(self, name: str, at: Statement) -> Iterator[Statement]:
        """Yield the ``return`` statements that a call of *name* may end with."""
        index = self._position.get(at.cell, 0)
        scopes = {name, *(f"{c}.forward" for c in self.classes_of(name, at))}
        for source in reversed(self._cells[: index + 1]):
            inner = [s for s in _read(source).returns if s.scope in scopes]
            yield from inner
            if inner or time.perf_counter() > self._deadline:
                return

    def classes_of(self, name: str, at: Statement) -> Iterator[str]:
        """Yield the class that *name* is an instance of, if the source tells."""
        for statement in self.assignments(name, at):
            value = getattr(statement.node, "value", None)
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                yield value.func.id
            return


def _ran_before(statement: Statement, at: Statement) -> bool:
    """Whether no loop that may not have run stands between *statement* and *at* below it."""
    return statement.loops == at.loops[: len(statement.loops)]


def _updates(statement: Statement, name: str) -> bool:
    return name in statement.reads or statement.is_in_place


def in_place_targets(node: ast.stmt) -> frozenset[str]:
    """Return the names whose objects *node* writes into."""
    targets: set[str] = set()
    if isinstance(node, ast.AugAssign):
        targets.add(dotted(_base(node.target)))
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                targets.add(dotted(_base(target)))
    for part in ast.walk(node) if isinstance(node, (ast.Expr, ast.Assign)) else ():
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            method = part.func.attr
            if method.endswith("_") and not method.endswith("__"):
                targets.add(dotted(_base(part.func.value)))
    return frozenset(targets - {""})


_SAME_MEMORY = ("detach", "view", "view_as", "t", "numpy", "squeeze", "unsqueeze", "transpose")


def _filled(node: ast.expr) -> Iterator[str]:
    """Yield ``losses`` of ``losses.append(loss)``."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute) and function.attr in _FILLS:
        name = dotted(function.value)
        if name:
            yield name


def _base(node: ast.expr) -> ast.expr:
    """Return what is written when *node* is: ``x`` of ``x[i]``, ``x.detach()``, ``x.data``."""
    while True:
        if isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Attribute) and node.attr in ("data", "T")
        ):
            node = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _SAME_MEMORY
        ):
            node = node.func.value
        else:
            return node


def dotted(node: ast.AST) -> str:
    """Return ``self.fc.weight`` for a chain of attributes, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


class _Cell:
    """The statements of one cell, found by the names that they assign."""

    def __init__(self, statements: tuple[Statement, ...]) -> None:
        self.statements = statements
        self.returns = [s for s in statements if isinstance(s.node, ast.Return)]
        self._by_name: dict[str, list[Statement]] = {}
        for statement in statements:
            for name in statement.targets:
                self._by_name.setdefault(name, []).append(statement)

    def assign(self, name: str) -> list[Statement]:
        """Return the statements that assign *name*, in source order."""
        return self._by_name.get(name, [])


@functools.lru_cache(maxsize=2 * MAX_CELLS)
def _read(source: CellSource) -> _Cell:
    try:
        tree = ast.parse(source.python)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Cell(())
    return _Cell(tuple(_walk(tree.body, source, "", (), ())))


def _walk(
    body: list[ast.stmt],
    source: CellSource,
    scope: str,
    loops: tuple[int, ...],
    under: tuple[int, ...],
) -> Iterator[Statement]:
    for node in body:
        line = node.lineno + source.down
        inner = getattr(node, "body", None)
        last = line if isinstance(inner, list) else (node.end_lineno or node.lineno) + source.down
        yield Statement(
            cell=source.cell,
            line=line,
            end_line=last,
            scope=scope,
            loops=loops,
            under=under,
            targets=frozenset(_targets(node)),
            reads=frozenset(_reads(node)),
            node=node,
        )
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            guards = under + ((line,) if any(map(_stops_grad, node.decorator_list)) else ())
            yield from _walk(node.body, source, _join(scope, node.name), (), guards)
            continue
        if isinstance(node, ast.ClassDef):
            yield from _walk(node.body, source, _join(scope, node.name), (), ())
            continue
        around, guards = loops, under
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            around = (*loops, line)
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(
            _stops_grad(item.context_expr) for item in node.items
        ):
            guards = (*under, line)
        for field in ("body", "orelse", "finalbody"):
            yield from _walk(getattr(node, field, None) or [], source, scope, around, guards)
        for handler in getattr(node, "handlers", ()):
            yield from _walk(handler.body, source, scope, around, guards)


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _stops_grad(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        name = dotted(node.func).rpartition(".")[2]
        if name == "set_grad_enabled":
            first = node.args[0] if node.args else None
            return isinstance(first, ast.Constant) and first.value is False
        return name in _NO_GRAD
    return dotted(node).rpartition(".")[2] in _NO_GRAD


def _header(node: ast.stmt) -> list[ast.AST]:
    """Return the expressions of *node* itself, without the statements inside it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return []
    parts: list[ast.AST] = []
    for field, value in ast.iter_fields(node):
        if field in ("body", "orelse", "finalbody", "handlers", "cases"):
            continue
        parts += [
            v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST)
        ]
    return parts


def _reads(node: ast.stmt) -> Iterator[str]:
    for part in _header(node):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Load):
                yield dotted(inner)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                yield inner.id
    if isinstance(node, ast.AugAssign):
        yield dotted(_base(node.target))


def _targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    for part in _header(node):
        for inner in ast.walk(part):
            if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Store):
                yield dotted(inner)
    yield from in_place_targets(node)
    if isinstance(node, ast.Expr):
        yield from _filled(node.value)
