"""AGW307 optimizer-holds-replaced: the optimizer steps parameters that no module has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, GradChange, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    found = list(_left_behind(record))
    if not found:
        return
    program = Program(record.sources)
    stepped = {
        dotted(node.func.value)
        for statement in program.statements(record.cell)
        for node in ast.walk(statement.node)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
    }
    for optimizer, owner, new in found:
        statement = _blame(program, optimizer, owner)
        if optimizer not in stepped or statement is None:
            continue
        yield finding_at(
            RULE,
            program,
            statement,
            headline=f"`{optimizer}` does not hold {listed(new)}, and holds parameters that are no "
            f"part of `{owner}` any more",
            why="An optimizer keeps the parameter objects that it was given. A layer that is "
            "replaced afterwards gets gradients and is never updated or cleared.",
            evidence=(("have a gradient and no optimizer", listed(new)),),
            instead=f"{optimizer} = torch.optim…({owner}.parameters()) after the replacement",
            variables=new,
        )


def _left_behind(record: CellRecord) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield an optimizer with parameters of nobody, and a module with some that it lacks."""
    orphans = {
        name.partition(".param_groups[")[0] for name in record.after if ".param_groups[" in name
    }
    for optimizer in sorted(orphans):
        prefix = f"{optimizer}.param_groups["
        held = {
            _owner(name)
            for name, state in record.after.items()
            if any(other.startswith(prefix) for other in state.also)
        }
        for owner in sorted(held):
            new = tuple(
                name
                for name, state in record.after.items()
                if _owner(name) == owner
                and state.is_parameter
                and state.requires_grad
                and state.grad is not None
                and state.grad.identity is not GradChange.CLEARED
                and not any(".param_groups[" in other for other in state.also)
            )
            if new:
                yield optimizer, owner, new


def _owner(name: str) -> str:
    return name.partition(".")[0].partition("[")[0]


def _blame(program: Program, optimizer: str, owner: str) -> Statement | None:
    """Return what replaced a part of *owner* after the optimizer was made, or its making."""
    replaced: Statement | None = None
    for statement in program.newest_first():
        if statement.scope:
            continue
        if optimizer in statement.targets:
            return replaced or statement
        targets = statement.node.targets if isinstance(statement.node, ast.Assign) else []
        for target in targets:
            if (
                isinstance(target, (ast.Subscript, ast.Attribute))
                and _owner(ast.unparse(target)) == owner
            ):
                replaced = statement
    return replaced


RULE = Rule(
    code="AGW307",
    name="optimizer-holds-replaced",
    severity=Severity.WRONG,
    summary="An optimizer holds parameters of a layer that was replaced, and lacks the new ones.",
    why=(
        "`torch.optim.SGD(net.parameters())` stores the parameter objects of that moment. When a\n"
        "layer is replaced later, the optimizer goes on with the old ones, whose gradient stays\n"
        "None, and the new layer is never updated: it is not even cleared by `zero_grad()`."
    ),
    bad="""\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net[1] = nn.Linear(3, 1)
net(torch.ones(1, 2)).sum().backward()
opt.step()
""",
    good="""\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
net[1] = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(1, 2)).sum().backward()
opt.step()
""",
    near_miss="""\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
opt = torch.optim.SGD(net[1].parameters(), lr=0.1)      # the first layer is frozen this way
net(torch.ones(1, 2)).sum().backward()
opt.step()
""",
    sources=("<https://pytorch.org/docs/stable/optim.html#constructing-it>",),
    check=check,
)
