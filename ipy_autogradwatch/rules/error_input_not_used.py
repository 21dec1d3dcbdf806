"""AGW411 input-not-used: autograd.grad was asked for the gradient of what the root does not use."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._source import Statement, dotted

_RAISED = (
    r"differentiated Tensors?( at index \d+)? appears to not have been used in the graph"
    r"|One of the differentiated Tensors does not require grad"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(failed.statement, "grad")
    reaches = record.after[text].reaches if text in record.after else ()
    reached = ", ".join(reaches[:6])
    asked = [name for name in _inputs(failed.statement) if name not in reaches]
    unused = listed(tuple(asked)) if asked and text in record.after else "one of the inputs"
    yield finding(
        RULE,
        failed,
        headline=f"{unused} is no input of the graph of `{text or 'the root'}`",
        why="The graph of the root does not lead there: it was not used, it was cut off, or the name stands for a new object by now.",
        evidence=(("reached", reached or "nothing"), ("raised by", "this line")),
        instead="use it in the root; allow_unused=True gives None for it",
        at=failed.statement,
        part=part,
    )


def _inputs(statement: Statement | None) -> list[str]:
    """Return the names among the inputs of ``grad(outputs, inputs)`` in *statement*."""
    for node in ast.walk(statement.node) if statement is not None else ():
        if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == "grad":
            given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "inputs")]
            return [ast.unparse(n) for g in given for n in _items(g)]
    return []


def _items(node: ast.expr) -> list[ast.expr]:
    items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    return [item for item in items if dotted(item)]


RULE = Rule(
    code="AGW411",
    name="input-not-used",
    severity=Severity.WRONG,
    summary="A gradient was asked for with respect to a tensor that the root does not depend on.",
    why=(
        "`torch.autograd.grad(root, inputs)` follows the graph of the root. An input that is not in it\n"
        "is one that was made or copied after the root was computed, that was cut off by `detach`,\n"
        "`.data` or `no_grad`, or that the root does not use at all."
    ),
    bad="""\
import torch
x = torch.ones(3, requires_grad=True)
z = torch.ones(3, requires_grad=True)
loss = (x * 2).sum()
g = torch.autograd.grad(loss, [x, z])
""",
    good="""\
import torch
x = torch.ones(3, requires_grad=True)
z = torch.ones(3, requires_grad=True)
loss = (x * z).sum()
g = torch.autograd.grad(loss, [x, z])
""",
    near_miss="""\
import torch
x = torch.ones(3, requires_grad=True)
z = torch.ones(3, requires_grad=True)
loss = (x * 2).sum()
g = torch.autograd.grad(loss, [x, z], allow_unused=True)
""",
    sources=("`torch/autograd/__init__.py`, `grad`",),
    check=check,
)
