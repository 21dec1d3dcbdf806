"""AGW309 hook-changes-gradient: a hook writes into the gradient that it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted, in_place_targets
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    if not record.sources or "register_hook(" not in record.sources[-1].raw:
        return
    program = Program(record.sources)
    for statement in program.statements(record.cell):
        for node in ast.walk(statement.node) if isinstance(statement.node, ast.Expr) else ():
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "register_hook"
                and node.args
            ):
                continue
            tensor = dotted(node.func.value)
            state = record.after.get(tensor)
            # On a leaf the gradient is nobody else's; on a result it may be a neighbour's too.
            if state is None or state.is_leaf:
                continue
            writer = _writer(program, node.args[0], statement)
            if writer is not None:
                yield finding_at(
                    RULE,
                    program,
                    writer,
                    headline=f"the hook on `{tensor}` changes its argument in place",
                    why="The gradient that a hook is given may be handed to other branches too: an "
                    "addition passes one tensor to both its inputs. They get the changed one.",
                    evidence=(
                        ("registered by", program.text(statement.cell, statement.line).strip()),
                    ),
                    instead="return a new tensor, as return g * 10",
                    variables=(tensor,),
                )


def _writer(program: Program, hook: ast.expr, at: Statement) -> Statement | None:
    if isinstance(hook, ast.Lambda):
        names = {argument.arg for argument in hook.args.args}
        writes = in_place_targets(ast.Expr(hook.body)) & names
        return at if writes else None
    if not isinstance(hook, ast.Name):
        return None
    for statement in program.newest_first():
        node = statement.node
        if isinstance(node, ast.FunctionDef) and node.name == hook.id and node.args.args:
            argument = node.args.args[0].arg
            for inner in program.statements(statement.cell):
                if inner.scope == node.name and argument in in_place_targets(inner.node):
                    return inner
            return None
    return None


RULE = Rule(
    code="AGW309",
    name="hook-changes-gradient",
    severity=Severity.RISKY,
    summary="A hook on a result changes the gradient that it is given in place.",
    why=(
        "PyTorch hands the same gradient tensor to several places when it can. A hook that writes\n"
        "into it changes the gradients of other branches as well. A hook may return a new tensor,\n"
        "which then takes the place of the old one for this branch alone."
    ),
    bad="""\
import torch
a = torch.ones(2, requires_grad=True)
v = a * 3
def boost(g):
    g *= 10
handle = None
v.register_hook(boost)
""",
    good="""\
import torch
a = torch.ones(2, requires_grad=True)
v = a * 3
def boost(g):
    return g * 10
v.register_hook(boost)
""",
    near_miss="""\
import torch
a = torch.ones(2, requires_grad=True)
def show(g):
    print(g.norm())
(a * 3).register_hook(show)
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html>",),
    check=check,
)
