"""AGW204 penalty-without-graph: a penalty on a gradient that was computed without a graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._roots import Way, calls_in, ways
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at
from ipy_autogradwatch.rules._terms import constant_terms

# The distance of a norm from one: nothing but a penalty is written so. A gradient that is
# normalised, or weighs a loss, is a constant on purpose.
_PENALTY = re.compile(r"norm\((?:[^()]|\([^()]*\))*\)\)?(?:\.sqrt\(\))? ?- ?1|sqrt\(.*\) ?- ?1")


def check(record: CellRecord) -> Iterator[Finding]:
    if record.error is not None or not record.backwards:
        return
    program = Program(record.sources)
    constant = {
        statement for term in constant_terms(record, program) for statement in term.statements
    }
    said: set[tuple[int, int]] = set()
    for way in ways(record, program):
        for statement in way.statements:
            call = _plain_grad(statement)
            place = statement.cell, statement.line
            if call is None or place in said:
                continue
            if statement not in constant and not _is_penalised(way, statement):
                continue
            said.add(place)
            names = ", ".join(f"`{name}`" for name in sorted(statement.targets))
            yield finding_at(
                RULE,
                program,
                statement,
                part=call,
                headline=f"{names} has no graph: a penalty on it is a constant and trains nothing",
                why="`torch.autograd.grad` returns plain numbers unless it is told to record how "
                "they were computed. `retain_graph=True` keeps the old graph and records nothing.",
                instead="torch.autograd.grad(…, create_graph=True)",
                evidence=(("root", ", ".join(f"`{root}`" for root in way.call.roots)),),
            )


def _plain_grad(statement: Statement) -> ast.Call | None:
    """Return a call of ``autograd.grad`` for one tensor, without ``create_graph``."""
    if not isinstance(statement.node, ast.Assign):
        return None
    for call in calls_in(statement):
        name = dotted(call.func)
        if not (name.endswith("autograd.grad") or name == "grad"):
            continue
        inputs = (
            call.args[1]
            if len(call.args) > 1
            else next((k.value for k in call.keywords if k.arg == "inputs"), None)
        )
        recorded = any(keyword.arg in ("create_graph", None) for keyword in call.keywords)
        if isinstance(inputs, ast.Name) and not recorded and len(call.args) < 5:
            return None if "param" in inputs.id or "weight" in inputs.id else call
    return None


def _is_penalised(way: Way, statement: Statement) -> bool:
    return any(_PENALTY.search(ast.unparse(s.node)) for s in way.readers(statement.targets))


RULE = Rule(
    code="AGW204",
    name="penalty-without-graph",
    severity=Severity.RISKY,
    summary="A gradient computed without `create_graph=True` is part of a loss.",
    why=(
        "A gradient penalty differentiates a gradient. That needs the graph of the gradient, which\n"
        "`torch.autograd.grad(..., create_graph=True)` records. Without it the penalty has a value,\n"
        "is added to the loss, and has no gradient."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
x = torch.ones(2, requires_grad=True)
g, = torch.autograd.grad((w * x * x).sum(), x)
penalty = (g.norm() - 1) ** 2
((w * 2).sum() + penalty).backward()
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
x = torch.ones(2, requires_grad=True)
g, = torch.autograd.grad((w * x * x).sum(), x, create_graph=True)
penalty = (g.norm() - 1) ** 2
((w * 2).sum() + penalty).backward()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
g, = torch.autograd.grad((w * w).sum(), w)
fast = w - 0.1 * g      # a first-order step
(fast * fast).sum().backward()
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.autograd.grad.html>",),
    check=check,
)
