"""AGW205 detach-beside-path: a part of the loss stops at a ``detach``; another does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._roots import Way, calls_in, ways
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    if record.error is not None or not record.backwards:
        return
    program = Program(record.sources)
    said: set[tuple[int, int]] = set()
    for way in ways(record, program):
        for statement in way.statements:
            found = _detached(way, statement)
            place = statement.cell, statement.line
            if found is None or place in said:
                continue
            call, name = found
            said.add(place)
            leaves = _leaves_behind(program, statement, name, way)
            if not leaves:
                continue
            yield finding_at(
                RULE,
                program,
                statement,
                part=call,
                headline=f"through `{name}.detach()` no gradient goes to {listed(leaves)}; another "
                "part of the loss has one",
                why="As a stop-gradient (a target, a baseline, the other player's step) this is "
                "right. If this part is meant to train what is behind it, it does not.",
                instead=f"{name}, if it should",
                evidence=(("root", ", ".join(f"`{root}`" for root in way.call.roots)),),
                variables=leaves,
            )


def _detached(way: Way, statement: Statement) -> tuple[ast.Call, str] | None:
    """Return ``x.detach()`` of a name that also enters the root as it is."""
    if not isinstance(statement.node, (ast.Assign, ast.AugAssign, ast.Return)):
        return None
    for call in calls_in(statement):
        function = call.func
        if not (isinstance(function, ast.Attribute) and function.attr == "detach"):
            continue
        if not isinstance(function.value, ast.Name):
            continue
        name = function.value.id
        beside = any(
            other is not statement and name in other.reads and name not in other.targets
            for other in way.statements
        )
        if beside and name not in statement.targets:
            return call, name
    return None


def _leaves_behind(program: Program, statement: Statement, name: str, way: Way) -> tuple[str, ...]:
    behind = {name} | {read for s in program.backward_slice([name], statement) for read in s.reads}
    return tuple(
        leaf for leaf in way.call.reaches if leaf.partition(".")[0].partition("[")[0] in behind
    )


RULE = Rule(
    code="AGW205",
    name="detach-beside-path",
    severity=Severity.NOTE,
    summary="A value enters a loss twice: once detached, once with its graph.",
    why=(
        "A `detach` in one part of a loss is invisible as long as another part is connected: the\n"
        "leaves get a gradient, of the other part only. Only you can say whether that is meant."
    ),
    bad="""\
import torch
g = torch.ones(2, requires_grad=True)
fake = g * 3
judged = fake.detach() * 2
loss = judged.sum() + fake.abs().sum()
loss.backward()
""",
    good="""\
import torch
g = torch.ones(2, requires_grad=True)
fake = g * 3
judged = fake * 2
loss = judged.sum() + fake.abs().sum()
loss.backward()
""",
    near_miss="""\
import torch
w = torch.tensor(0.5, requires_grad=True)
h = torch.tensor(1.0)
for _ in range(3):
    h = torch.tanh(w * h)
    h.backward()
    h = h.detach()      # carried on without its past
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.detach.html>",),
    check=check,
)
