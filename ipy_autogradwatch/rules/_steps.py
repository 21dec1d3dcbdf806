"""Where the source clears gradients and where it uses them for a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ipy_autogradwatch.model import CellRecord
from ipy_autogradwatch.rules._source import Program, Statement, dotted, in_place_targets

_GROUPS = ".param_groups["


@dataclass(frozen=True, slots=True)
class Event:
    """A statement that clears gradients, or updates leaves by them.

    Attributes:
        clears: It clears; else it is a step.
        receiver: Of what, as the user wrote it: an optimizer, a module, a tensor.
    """

    statement: Statement
    clears: bool
    receiver: str


def events(program: Program, at: Statement) -> Iterator[Event]:
    """Yield what clears or steps in the scope of *at*, in source order."""
    for statement in program.statements(at.cell):
        if statement.scope == at.scope and not hasattr(statement.node, "body"):
            yield from _events(statement)


def _events(statement: Statement) -> Iterator[Event]:
    node = statement.node
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == "grad":
                yield Event(statement, True, ast.unparse(target.value))
    for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
        function = call.func
        if not isinstance(function, ast.Attribute):
            continue
        if function.attr == "zero_grad":
            yield Event(statement, True, ast.unparse(function.value))
        elif function.attr in ("zero_", "fill_") and ".grad" in ast.unparse(function.value):
            yield Event(statement, True, ast.unparse(function.value).partition(".grad")[0])
        elif function.attr == "step" and "sched" not in ast.unparse(function.value):
            by_scaler = "scaler" in ast.unparse(function.value) and call.args
            yield Event(
                statement, False, ast.unparse(call.args[0] if by_scaler else function.value)
            )
    for name in in_place_targets(node) or _data_assigned(node):
        if not name.endswith(".grad") and any(read.endswith(".grad") for read in statement.reads):
            yield Event(statement, False, name.removesuffix(".data"))


def _data_assigned(node: ast.stmt) -> frozenset[str]:
    """Return ``x`` of ``x.data = …``."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return frozenset(
        dotted(t.value) for t in targets if isinstance(t, ast.Attribute) and t.attr == "data"
    )


class Holders:
    """Which optimizer or module holds which leaf, as far as the record tells."""

    def __init__(self, record: CellRecord, program: Program) -> None:
        self._record = record
        self._program = program
        names = [n for name, state in record.after.items() for n in (name, *state.also)]
        self._names = names
        self.optimizers = frozenset(n.partition(_GROUPS)[0] for n in names if _GROUPS in n)

    def names_of(self, leaf: str) -> tuple[str, ...]:
        """Return all names of *leaf*."""
        state = self._record.after.get(leaf)
        return (leaf,) if state is None else (leaf, *state.also)

    def in_optimizer(self, leaf: str) -> bool:
        """Whether an optimizer that can be reached from the namespace holds *leaf*."""
        return any(_GROUPS in name for name in self.names_of(leaf))

    def holds(self, receiver: str, leaf: str, at: Statement) -> bool | None:
        """Whether *receiver*, as written in the scope of *at*, holds *leaf*; None if unknown."""
        if at.scope and receiver.partition(".")[0].partition("[")[0] in self._locals(at):
            attribute = receiver.partition(".")[2]
            if not attribute or "[" in attribute or "(" in attribute:
                return None
            return self._by_end(f".{attribute}", leaf)
        if receiver in self.optimizers:
            return any(n.startswith(receiver + _GROUPS) for n in self.names_of(leaf))
        if receiver in self._names:
            return receiver in self.names_of(leaf)
        inside = (f"{receiver}.", f"{receiver}[")
        if any(name.startswith(inside) for name in self._names):
            return any(name.startswith(inside) for name in self.names_of(leaf))
        return None

    def _by_end(self, end: str, leaf: str) -> bool | None:
        optimizers = [name for name in self.optimizers if name.endswith(end)]
        if optimizers:
            mine = self.names_of(leaf)
            return any(n.startswith(o + _GROUPS) for n in mine for o in optimizers)
        inside = (f"{end}.", f"{end}[")
        if any(part in name for name in self._names for part in inside):
            return any(part in name for name in self.names_of(leaf) for part in inside)
        return None

    def _locals(self, at: Statement) -> frozenset[str]:
        """Return what a name may mean in the function around *at*, other than a global."""
        names: set[str] = set()
        for statement in self._program.statements(at.cell):
            node = statement.node
            if isinstance(node, ast.FunctionDef) and at.scope.endswith(node.name):
                names |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            elif statement.scope == at.scope:
                names |= {name for name in statement.targets if name.isidentifier()}
                names -= in_place_targets(node)
        return frozenset(names)

    def is_stepped(self, leaf: str, scopes: list[Statement]) -> bool:
        """Whether an optimizer that holds *leaf* was stepped in the scope of one of *scopes*.

        A step at the top level of the cell has run. One in a branch or a function may have
        run: then another leaf of the same optimizer was updated.
        """
        mine = {n.partition(_GROUPS)[0] for n in self.names_of(leaf) if _GROUPS in n}
        return any(
            not event.clears
            and mine & self._meant_by(event.receiver, at)
            and (
                self._surely_runs(event.statement)
                or any(map(self._updates, mine & self._meant_by(event.receiver, at)))
            )
            for at in scopes
            for event in events(self._program, at)
        )

    def _meant_by(self, receiver: str, at: Statement) -> frozenset[str]:
        """Return the optimizers that *receiver* may be."""
        if at.scope and receiver.partition(".")[0].partition("[")[0] in self._locals(at):
            attribute = receiver.partition(".")[2]
            if attribute and "[" not in attribute:
                return frozenset(o for o in self.optimizers if o.endswith(f".{attribute}"))
            return self.optimizers
        return frozenset({receiver}) & self.optimizers

    def _surely_runs(self, statement: Statement) -> bool:
        return (
            statement.scope == ""
            and statement.cell == self._record.cell
            and not any(
                isinstance(other.node, (ast.If, ast.Try))
                and other.node.lineno < statement.node.lineno <= (other.node.end_lineno or 0)
                for other in self._program.statements(statement.cell)
            )
        )

    def _updates(self, optimizer: str) -> bool:
        """Whether a leaf that only *optimizer* holds was written in this cell."""
        for leaf, after in self._record.after.items():
            held = {n.partition(_GROUPS)[0] for n in self.names_of(leaf) if _GROUPS in n}
            before = self._record.before.get(leaf)
            was_written = (
                before is not None
                and before.identity == after.identity
                and before.version != after.version
            )
            if held == {optimizer} and was_written and after.grad is not None:
                return True
        return False


def is_read(record: CellRecord, program: Program, leaf: str) -> bool:
    """Whether the cell looks at the gradient of *leaf*: by its name, or in a loop over it."""
    owner = leaf.partition(".")[0].partition("[")[0]
    known = {name.partition(".")[0].partition("[")[0] for name in record.after}
    here = [s for s in program.statements(record.cell) if not s.scope]
    names = {read for statement in here for read in statement.reads}
    for statement in here:
        for read in statement.reads:
            holder, dot, rest = read.rpartition(".")
            if not dot or rest != "grad":
                continue
            root = holder.partition(".")[0]
            if root == owner and (owner != leaf or holder == leaf):
                return True
            if root not in known and owner in names:
                return True
    return False
