"""AGW201 gradient-always-zero: connected, but only through operations without a slope."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ipy_autogradwatch.model import BackwardCall, CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import backward_roots
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import finding_at, listed
from ipy_autogradwatch.rules._source import Program, Statement

_FLAT = frozenset({"round", "floor", "ceil", "trunc", "fix", "sign", "sgn"})


def check(record: CellRecord) -> Iterator[Finding]:
    for call in record.backwards:
        if not call.zero:
            continue
        found = _step(record, call)
        finding = finding_at(
            RULE,
            call.site,
            headline=f"the gradient of {listed(call.zero)} is zero everywhere: every way to it goes "
            "through a step function",
            why="The graph is connected and backward fills `.grad`, with zeros: the slope of a step "
            "is zero wherever it has one.",
            instead="x + (torch.round(x) - x).detach()  lets the gradient pass as if there were no "
            "rounding",
            evidence=(("nodes", ", ".join(call.flat)),),
            variables=call.zero,
        )
        if found is not None:
            statement, node = found
            yield _moved(finding, record, statement, node)
        else:
            yield finding


def _step(record: CellRecord, call: BackwardCall) -> tuple[Statement, ast.Call] | None:
    program = Program(record.sources)
    if call.site.cell is None:
        return None
    at = program.at(call.site.cell, call.site.span.line)
    if at is None:
        return None
    names, _ = backward_roots(at)
    for statement in [at, *program.backward_slice(names, at)]:
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Call):
                function = node.func
                name = (
                    function.attr
                    if isinstance(function, ast.Attribute)
                    else getattr(function, "id", "")
                )
                if name.rstrip("_") in _FLAT:
                    return statement, node
    return None


def _moved(finding: Finding, record: CellRecord, statement: Statement, node: ast.Call) -> Finding:
    down = statement.line - statement.node.lineno
    line = (node.end_lineno or node.lineno) + down
    return replace(
        finding,
        cell=statement.cell,
        line=line,
        end_line=line,
        column=node.col_offset if node.lineno == node.end_lineno else 0,
        end_column=node.end_col_offset or 0,
        source=Program(record.sources).text(statement.cell, line),
    )


RULE = Rule(
    code="AGW201",
    name="gradient-always-zero",
    severity=Severity.WRONG,
    summary="A leaf is connected to the root only through operations whose derivative is zero.",
    why=(
        "`round`, `floor`, `ceil`, `trunc` and `sign` have a node in the graph, and their\n"
        "derivative is zero. A leaf behind nothing else gets a gradient of exact zeros: not None,\n"
        "no error, and it never moves. A straight-through estimator adds a second way."
    ),
    bad="""\
import torch
gain = torch.tensor(3.3, requires_grad=True)
offset = torch.tensor(0.2, requires_grad=True)
loss = (torch.round(gain * 2) + offset) ** 2
loss.backward()
""",
    good="""\
import torch
gain = torch.tensor(3.3, requires_grad=True)
offset = torch.tensor(0.2, requires_grad=True)
scaled = gain * 2
loss = (scaled + (torch.round(scaled) - scaled).detach() + offset) ** 2
loss.backward()
""",
    near_miss="""\
import torch
x = torch.tensor(3.3, requires_grad=True)
loss = torch.round(x) * x      # a second way to x
loss.backward()
""",
    sources=("`tools/autograd/derivatives.yaml`, entries of `round`, `floor`, `sign`",),
    check=check,
)
