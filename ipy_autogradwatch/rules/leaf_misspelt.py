"""AGW305 requires-grad-misspelt: an attribute that autograd does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program
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
            if isinstance(target, ast.Attribute) and _MISSPELT.match(target.attr):
                receiver = ast.unparse(target.value)
                yield finding_at(
                    RULE,
                    program,
                    statement,
                    part=target,
                    headline=f"`{receiver}.{target.attr}` is not `{receiver}.requires_grad`",
                    why="A tensor takes any attribute without an error. Autograd looks at "
                    "`requires_grad` only, which stays as it was.",
                    evidence=((f"{receiver}.requires_grad", "is not touched by this line"),),
                    instead=f"{receiver}.requires_grad = {ast.unparse(statement.node.value)}",
                )


RULE = Rule(
    code="AGW305",
    name="requires-grad-misspelt",
    severity=Severity.RISKY,
    summary="`requires_grad` is misspelt, and the statement does nothing.",
    why=(
        "Tensors are Python objects and accept attributes of any name. `p.require_grad = False`\n"
        "makes a new attribute that nobody reads: the parameter is not frozen, and trains on."
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
