"""AGW305 requires-grad-misspelt: an attribute that autograd does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at

_MISSPELT = re.compile(
    r"^(require_grad|requires_grads|require_grads|required_grad|requires_gradient|requiresgrad"
    r"|requires_gard|requires_gad|require_gradient|needs_grad|requireGrad|requiresGrad)$"
)


def check(record: CellRecord) -> Iterator[Finding]:
    if not record.sources or not re.search(r"\.(require|need)", record.sources[-1].raw):
        return
    program = Program(record.sources)
    for statement in program.statements(record.cell):
        if not isinstance(statement.node, ast.Assign):
            continue
        for target in statement.node.targets:
            if not isinstance(target, ast.Attribute):
                continue
            receiver, value = ast.unparse(target.value), ast.unparse(statement.node.value)
            is_misspelt = _MISSPELT.match(target.attr) is not None
            on_module = _trains_on(record, receiver) and value == "False"
            if not (
                (is_misspelt and (on_module or _is_tensor(record, program, target, statement)))
                or (target.attr == "requires_grad" and on_module)
            ):
                continue
            what = "is not" if is_misspelt else "is an attribute of its own, not that of"
            which = f"`{receiver}.requires_grad`" if is_misspelt else "the parameters"
            yield finding_at(
                RULE,
                program,
                statement,
                part=target,
                headline=f"`{receiver}.{target.attr}` {what} {which}",
                why="Tensors and modules take any attribute without an error. Autograd looks at "
                "`requires_grad` of tensors only, which stays as it was.",
                evidence=((f"{receiver}.requires_grad", "is not touched by this line"),)
                if is_misspelt
                else (("its parameters", "still require grad"),),
                instead=f"{receiver}.requires_grad_({value})"
                if on_module
                else f"{receiver}.requires_grad = {value}",
            )


def _trains_on(record: CellRecord, receiver: str) -> bool:
    """Whether *receiver* is a module with parameters that require grad after the cell."""
    inside = (f"{receiver}.", f"{receiver}[")
    return receiver not in record.after and any(
        state.is_parameter and state.requires_grad
        for name, state in record.after.items()
        if name.startswith(inside)
    )


def _is_tensor(record: CellRecord, program: Program, target: ast.Attribute, at: Statement) -> bool:
    """Whether the receiver of *target* is a tensor: by name, or in a loop over parameters."""
    receiver = dotted(target.value)
    if receiver in record.after or receiver in record.before:
        return True
    if receiver.endswith((".weight", ".bias")):
        return True
    return any(
        isinstance(other.node, ast.For)
        and receiver in other.targets
        and "parameters()" in ast.unparse(other.node.iter)
        and other.scope == at.scope
        for other in program.statements(at.cell)
    )


RULE = Rule(
    code="AGW305",
    name="requires-grad-misspelt",
    severity=Severity.RISKY,
    summary="`requires_grad` is misspelt, and the statement does nothing.",
    why=(
        "Tensors are Python objects and accept attributes of any name. `p.require_grad = False`\n"
        "makes a new attribute that nobody reads: the parameter is not frozen, and trains on. So does\n"
        "`net.requires_grad = False` on a module; `net.requires_grad_(False)` freezes it."
    ),
    bad="""\
import torch
w = torch.nn.Parameter(torch.ones(2))
w.require_grad = False
""",
    good="""\
import torch
w = torch.nn.Parameter(torch.ones(2))
w.requires_grad = False
""",
    near_miss="""\
import torch
w = torch.nn.Parameter(torch.ones(2))
require_grad = False
w.requires_grad = require_grad
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad>",),
    check=check,
)
