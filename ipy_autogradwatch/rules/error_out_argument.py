"""AGW418 out-with-gradient: an operation with out= was given a tensor that requires grad."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Statement

_RAISED = r"functions with out=\.\.\. arguments don't support automatic differentiation"


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    call = _call(failed.statement) or failed.line_text
    yield finding(
        RULE,
        failed,
        headline=f"`{call}` writes its result with out=, which is not recorded",
        why="Autograd records operations that make a new tensor. One of the inputs requires grad.",
        evidence=(("raised by", "this line"),),
        instead="the result as a new tensor, without out=; or torch.no_grad() around it where no gradient is wanted",
        at=failed.statement,
    )


def _call(statement: Statement | None) -> str:
    """Return the call with ``out=`` in *statement*, as it is written."""
    for node in ast.walk(statement.node) if statement is not None else ():
        if isinstance(node, ast.Call) and any(k.arg == "out" for k in node.keywords):
            return ast.unparse(node)
    return ""


RULE = Rule(
    code="AGW418",
    name="out-with-gradient",
    severity=Severity.WRONG,
    summary="An operation with `out=` was given a tensor that requires grad.",
    why=(
        "`out=` writes a result over a tensor that is there already. Autograd records operations that\n"
        "make a new tensor, so PyTorch refuses the combination."
    ),
    bad="""\
import torch
x = torch.ones(3, requires_grad=True)
buffer = torch.empty(3)
torch.mul(x, 2, out=buffer)
""",
    good="""\
import torch
x = torch.ones(3, requires_grad=True)
buffer = torch.mul(x, 2)
""",
    near_miss="""\
import torch
x = torch.ones(3, requires_grad=True)
buffer = torch.empty(3)
with torch.no_grad():
    torch.mul(x, 2, out=buffer)
""",
    sources=("`torch/csrc/autograd/VariableTypeUtils.h`, `throw_error_out_requires_grad`",),
    check=check,
)
