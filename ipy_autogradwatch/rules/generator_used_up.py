"""AGW308 parameters-used-up: a second loop over ``net.parameters()`` runs zero times."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at

_GENERATORS = ("parameters", "named_parameters", "buffers", "named_buffers", "children", "modules")
_READERS = ("list", "tuple", "set", "sorted", "dict")


def check(record: CellRecord) -> Iterator[Finding]:
    if not record.sources or not any(f"{name}()" in record.sources[-1].raw for name in _GENERATORS):
        return
    program = Program(record.sources)
    said: set[tuple[int, int]] = set()
    for statement in program.statements(record.cell):
        for uses in _handed_over(program, statement):
            if len(uses.all) < 2:
                continue
            second = uses.all[1]
            if (second.cell, second.line) in said:
                continue
            said.add((second.cell, second.line))
            yield finding_at(
                RULE,
                program,
                second,
                headline=f"here `{uses.name}` is empty: "
                f"{'the round' if second is uses.all[0] else 'the loop'} before has used it up",
                why="`parameters()` returns a generator, which can be gone through once. The "
                "second time it yields nothing, and no error says so.",
                instead=f"{uses.name} = list({uses.name}) before the first use",
                evidence=(
                    ("filled by", program.text(statement.cell, statement.line).strip()),
                    ("used up by", program.text(second.cell, uses.all[0].line).strip()),
                ),
                variables=(uses.name,),
            )


@dataclass(frozen=True, slots=True)
class _Uses:
    """A name that holds a generator, and the statements that go through it, in order."""

    name: str
    all: list[Statement]


def _handed_over(program: Program, at: Statement) -> Iterator[_Uses]:
    """Yield what *at* fills with a generator."""
    for node in ast.walk(at.node) if not isinstance(at.node, ast.FunctionDef) else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for position, argument in enumerate(node.args):
                if _is_generator(argument):
                    for scope, name, cell in program.parameter_of(node.func.id, position):
                        inside = [s for s in program.statements(cell) if s.scope == scope]
                        yield _Uses(name, _gone_through(inside, name))
    if isinstance(at.node, ast.Assign) and _is_generator(at.node.value):
        below = [
            s for s in program.statements(at.cell) if s.scope == at.scope and s.line > at.end_line
        ]
        for target in at.node.targets:
            if isinstance(target, ast.Name) and not at.loops:
                yield _Uses(target.id, _gone_through(below, target.id))


def _is_generator(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name) and node.func.id == "filter" and len(node.args) == 2:
        return _is_generator(node.args[1])
    return isinstance(node.func, ast.Attribute) and node.func.attr in _GENERATORS and not node.args


def _gone_through(statements: list[Statement], name: str) -> list[Statement]:
    """Return the statements that surely go through *name*, to its end, one after the other.

    The second of them finds nothing. What binds the name again ends the search.
    """
    found: list[Statement] = []
    for statement in statements:
        if name in statement.targets:
            break
        if not _goes_through(statement, name):
            continue
        if found and not _always_follows(statements, found[0], statement):
            continue
        if statement.loops and not found:
            # In a loop that does not fill it again: the second round finds nothing.
            is_sure = not any(
                isinstance(s.node, ast.If) and _contains(s.node, statement) for s in statements
            )
            return [statement, statement] if is_sure else []
        found.append(statement)
    return found


def _goes_through(statement: Statement, name: str) -> bool:
    node = statement.node
    if isinstance(node, ast.For):
        leaves = any(isinstance(n, (ast.Break, ast.Return)) for n in ast.walk(node))
        return _is_named(node.iter, name) and not leaves
    if hasattr(node, "body"):
        return False
    for part in ast.walk(node):
        if isinstance(part, ast.comprehension) and _is_named(part.iter, name):
            return True
        if isinstance(part, ast.Call) and part.args and _is_named(part.args[0], name):
            function = dotted(part.func)
            if function in _READERS or "optim." in function or "clip_grad_" in function:
                return True
    return False


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _always_follows(statements: list[Statement], first: Statement, second: Statement) -> bool:
    """Whether *first* has run whenever *second* runs: it stands in no branch of its own."""
    for other in statements:
        if not isinstance(other.node, (ast.If, ast.Try)):
            continue
        branches = (other.node.body, other.node.orelse)
        for branch in branches:
            has_first = any(_contains(node, first) for node in branch)
            if has_first and not any(_contains(node, second) for node in branch):
                return False
    return True


def _contains(node: ast.stmt, statement: Statement) -> bool:
    return any(inner is statement.node for inner in ast.walk(node))


RULE = Rule(
    code="AGW308",
    name="parameters-used-up",
    severity=Severity.RISKY,
    summary="A second loop over `net.parameters()` runs zero times.",
    why=(
        "`net.parameters()` is a generator: gone through once, it is empty. A function that goes\n"
        "over its argument twice (norm first, then clip) clips nothing when it is given one."
    ),
    bad="""\
from torch import nn
net = nn.Linear(2, 1)
params = net.parameters()
for p in params:
    print(p.shape)
for p in params:
    p.requires_grad_(False)
""",
    good="""\
from torch import nn
net = nn.Linear(2, 1)
params = list(net.parameters())
for p in params:
    print(p.shape)
for p in params:
    p.requires_grad_(False)
""",
    near_miss="""\
from torch import nn
net = nn.Linear(2, 1)
for p in net.parameters():
    print(p.shape)
for p in net.parameters():      # a new generator
    p.requires_grad_(False)
""",
    sources=("`torch/nn/modules/module.py`, `Module.parameters`",),
    check=check,
)
