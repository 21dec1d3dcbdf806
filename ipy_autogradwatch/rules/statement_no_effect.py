"""AGW207 statement-without-effect: a call without parentheses, or a result thrown away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._statement import finding_at

_UNCALLED = ("backward", "zero_grad", "requires_grad_", "detach_", "detach")
_MODES = ("torch.no_grad", "torch.enable_grad", "torch.inference_mode")
_WORDS = re.compile(
    r"\.(backward|zero_grad|requires_grad_|detach_|no_grad|enable_grad|inference_mode)\b"
    r"|\.detach\b"
)


def check(record: CellRecord) -> Iterator[Finding]:
    if record.error is not None or not record.sources:
        return
    if _WORDS.search(record.sources[-1].raw) is None:
        return
    program = Program(record.sources)
    statements = program.statements(record.cell)
    top = [statement for statement in statements if statement.scope == ""]
    for statement in statements:
        if not isinstance(statement.node, ast.Expr):
            continue
        if top and statement is top[-1] and not statement.loops:
            continue  # The prompt displays its value.
        local = {
            name for other in statements if other.scope == statement.scope for name in other.targets
        }
        said = _said(record, statement, statement.node.value, local)
        if said is not None and not _is_property(program, statement):
            why, instead = said
            yield finding_at(
                RULE,
                program,
                statement,
                part=statement.node.value,
                headline=f"`{ast.unparse(statement.node.value)}` does nothing here",
                evidence=(("the value", "is not assigned, not passed on, and not displayed"),),
                why=why,
                instead=instead,
            )


def _said(
    record: CellRecord, statement: Statement, value: ast.expr, local: set[str]
) -> tuple[str, str] | None:
    """Return why *value*, alone in a statement, has no effect, and what to type."""
    text = ast.unparse(value)
    if isinstance(value, ast.Attribute):
        if value.attr == "zero_grad" and any(call.uncleared for call in record.backwards):
            return None  # AGW301 says what came of it.
        if value.attr in _UNCALLED and _is_torch(record, statement, value, local):
            return (
                "The method is looked up and not called. Python takes that silently.",
                f"{text}()",
            )
        return None
    if not isinstance(value, ast.Call):
        return None
    name = dotted(value.func)
    if name in _MODES and not value.keywords:
        return (
            "It makes a context manager, and only `with` enters it. Gradients stay as they were.",
            f"with {text}:",
        )
    if isinstance(value.func, ast.Attribute) and value.func.attr == "detach" and not value.args:
        receiver = ast.unparse(value.func.value)
        state = record.after.get(receiver)
        if statement.scope == "" and state is not None and state.grad_fn is not None:
            return (
                f"`detach` returns another tensor; `{receiver}` keeps its graph.",
                f"{receiver} = {text}",
            )
    return None


def _is_torch(record: CellRecord, at: Statement, method: ast.Attribute, local: set[str]) -> bool:
    """Whether the receiver is a tensor that is known by name, or a local of the function."""
    receiver = ast.unparse(method.value)
    if method.attr == "zero_grad" or receiver in record.after:
        return True
    return bool(at.scope) and method.attr != "detach" and receiver in local


def _is_property(program: Program, statement: Statement) -> bool:
    """Whether a cell defines a decorated method of that name, which a look-up may run."""
    value = statement.node.value if isinstance(statement.node, ast.Expr) else None
    return isinstance(value, ast.Attribute) and any(
        isinstance(other.node, ast.FunctionDef)
        and other.node.name == value.attr
        and bool(other.node.decorator_list)
        for other in program.newest_first()
    )


RULE = Rule(
    code="AGW207",
    name="statement-without-effect",
    severity=Severity.RISKY,
    summary="A method is not called, or its result is thrown away, and nothing happens.",
    why=(
        "`loss.backward` without parentheses looks the method up. `x.detach()` returns a tensor and\n"
        "leaves x in its graph. `torch.no_grad()` without `with` makes an object that nobody enters.\n"
        "Each is a valid expression, so Python says nothing. The last expression of a cell is not\n"
        "reported: its value is displayed."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
h = w * 2
h.detach()
out = h.sum()
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
h = w * 2
h = h.detach()
out = h.sum()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
h = w * 2
h.detach_()
keep = h.detach()
h.detach()      # displayed
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.detach.html>",),
    check=check,
)
