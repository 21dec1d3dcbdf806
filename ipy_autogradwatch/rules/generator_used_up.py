"""AGW308 parameters-used-up: a second loop over ``net.parameters()`` runs zero times."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at

_GENERATORS = ("parameters", "named_parameters", "buffers", "named_buffers", "children", "modules")


def check(record: CellRecord) -> Iterator[Finding]:
    if not record.sources or not any(f"{name}()" in record.sources[-1].raw for name in _GENERATORS):
        return
    program = Program(record.sources)
    here = program.statements(record.cell)
    for statement in here:
        for scope, name, where in _handed_over(program, statement):
            second = _second_loop(program, scope, name, where)
            if second is not None:
                yield finding_at(
                    RULE,
                    program,
                    second,
                    headline=f"this loop over `{name}` runs zero times: the loop before has used "
                    "it up",
                    why="`parameters()` returns a generator, which can be gone through once. The "
                    "second loop finds nothing, and no error says so.",
                    instead=f"{name} = list({name}) before the first loop",
                    evidence=(
                        ("called with", program.text(statement.cell, statement.line).strip()),
                    ),
                    variables=(name,),
                )


def _handed_over(program: Program, at: Statement) -> Iterator[tuple[str, str, int]]:
    """Yield scope, name and cell of what *at* fills with a generator."""
    for node in ast.walk(at.node) if not isinstance(at.node, ast.FunctionDef) else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for position, argument in enumerate(node.args):
                if _is_generator(argument):
                    yield from program.parameter_of(node.func.id, position)
    if isinstance(at.node, ast.Assign) and _is_generator(at.node.value):
        for target in at.node.targets:
            if isinstance(target, ast.Name):
                yield at.scope, target.id, at.cell


def _is_generator(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _GENERATORS
        and not node.args
    )


def _second_loop(program: Program, scope: str, name: str, cell: int) -> Statement | None:
    """Return the second of two plain loops over *name*, if nothing renews it in between."""
    loops: list[Statement] = []
    for statement in program.statements(cell):
        if statement.scope != scope:
            continue
        if name in statement.targets and loops:
            return None
        is_loop = isinstance(statement.node, ast.For) and isinstance(statement.node.iter, ast.Name)
        if is_loop and statement.node.iter.id == name:  # type: ignore[attr-defined]
            loops.append(statement)
            if any(line in statement.loops for line in (loop.line for loop in loops[:-1])):
                return None
    return loops[1] if len(loops) > 1 and not loops[0].loops else None


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
