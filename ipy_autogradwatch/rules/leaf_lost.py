"""AGW304 leaf-lost: the name is a result, and its leaf has no name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at

_UNNAMED = re.compile(r"<leaf of cell (\d+), line (\d+)>")


def check(record: CellRecord) -> Iterator[Finding]:
    candidates = [
        (name, match)
        for name, state in record.after.items()
        if state.requires_grad
        and not state.is_leaf
        and state.grad is None
        and len(state.reaches) == 1
        and (match := _UNNAMED.fullmatch(state.reaches[0]))
    ]
    if not candidates:
        return
    program = Program(record.sources)
    read = {name for statement in program.statements(record.cell) for name in statement.reads}
    for name, match in candidates:
        statement = program.at(int(match[1]), int(match[2]))
        if statement is None or name not in statement.targets or f"{name}.grad" not in read:
            continue
        if not _goes_on(statement):
            continue
        yield finding_at(
            RULE,
            program,
            statement,
            headline=f"`{name}` is no leaf: it is computed in this line from one that has no name",
            why=f"`.to()`, `.cuda()`, `.double()`, `* 0.1` and `.reshape()` return a new tensor. The "
            f"gradient goes to the nameless leaf, and `{name}.grad` stays None.",
            instead=f"make the tensor first, then {name}.requires_grad_()",
            evidence=((f"{name}.grad", "is read in this cell, and is None"),),
            variables=(name,),
        )


def _goes_on(statement: Statement) -> bool:
    """Whether the statement makes a leaf and, from it, something else."""
    value = getattr(statement.node, "value", None)
    return (
        isinstance(value, ast.AST)
        and not _makes_leaf(value)
        and any(_makes_leaf(node) for node in ast.walk(value))
    )


def _makes_leaf(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    return name in ("Parameter", "requires_grad_") or any(
        keyword.arg == "requires_grad" for keyword in node.keywords
    )


RULE = Rule(
    code="AGW304",
    name="leaf-lost",
    severity=Severity.WRONG,
    summary="A tensor that was to be a leaf is the result of an operation on one without a name.",
    why=(
        "`torch.ones(2, requires_grad=True).double()` makes a leaf and, from it, another tensor,\n"
        "which gets the name. Backward fills the gradient of the leaf, which nobody can reach."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True).double()
(w * w).sum().backward()
print(w.is_leaf or w.grad)
""",
    good="""\
import torch
w = torch.ones(2).double().requires_grad_()
(w * w).sum().backward()
print(w.grad)
""",
    near_miss="""\
import torch
t = torch.linspace(0, 1, 3, requires_grad=True).reshape(3, 1)
u = (t * t).sum()
slope, = torch.autograd.grad(u, t)      # asks for the gradient of a result: fine
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html>",),
    check=check,
)
