"""AGW311 graphs-kept: a value drags the graphs of many steps along."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at

FEWEST = 3
"""Graphs of earlier backwards; a loss that was just run backward holds one, its own."""


def check(record: CellRecord) -> Iterator[Finding]:
    program: Program | None = None
    for name, count in _keepers(record).items():
        program = program or Program(record.sources)
        statement = _keeper(program, record.cell, name)
        if statement is None:
            continue
        yield finding_at(
            RULE,
            program,
            statement,
            headline=f"`{name}` keeps the graphs of {count} steps",
            evidence=(("connected to", f"{count} graphs whose backward has already run"),),
            why="A tensor with a graph keeps every node behind it, and whatever these hold. It grows "
            "from step to step, and no error says so.",
            instead="loss.item() for a number, loss.detach() for a tensor",
            variables=(name,),
        )


def _keepers(record: CellRecord) -> dict[str, int]:
    """Return the variables that this cell has let grow, and by how many graphs."""
    kept: dict[str, int] = {}
    members: dict[str, int] = {}
    for name, state in record.after.items():
        before = record.before.get(name)
        grown = state.holds if before is None or before.identity != state.identity else 0
        if name.isidentifier() and grown >= FEWEST:
            kept[name] = state.holds
        elif "[" in name and grown:
            owner = name.partition("[")[0]
            members[owner] = members.get(owner, 0) + 1
    kept.update({owner: count for owner, count in members.items() if count >= FEWEST})
    return kept


def _keeper(program: Program, cell: int, name: str) -> Statement | None:
    """Return the statement of a loop that adds to *name*."""
    for statement in program.statements(cell):
        carries = name in statement.targets and name in statement.reads
        if carries and isinstance(statement.node, (ast.Assign, ast.AugAssign)):
            return statement
        if _adds_to(statement, name):
            return statement
    return None


def _adds_to(statement: Statement, name: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "extend", "insert", "appendleft", "setdefault")
        and dotted(node.func.value) == name
        for node in ast.walk(statement.node)
    ) and not isinstance(statement.node, (ast.For, ast.While, ast.With, ast.FunctionDef))


RULE = Rule(
    code="AGW311",
    name="graphs-kept",
    severity=Severity.RISKY,
    summary="A running value or a list of losses keeps the graphs of many steps.",
    why=(
        "`total += loss` adds tensors, not numbers: `total` is connected to the graph of every\n"
        "step, and none of them can be freed. Backward frees what nodes have saved, not the nodes.\n"
        "Memory grows with every step until the notebook dies far away from this line."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
total = 0.0
for _ in range(5):
    w.grad = None
    loss = (w * w).sum()
    loss.backward()
    total += loss
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
total = 0.0
for _ in range(5):
    w.grad = None
    loss = (w * w).sum()
    loss.backward()
    total += loss.item()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
total = 0.0
for _ in range(5):
    total = total + (w * w).sum()
total.backward()      # one graph, run backward once
""",
    sources=(
        "<https://pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory>",
    ),
    check=check,
)
