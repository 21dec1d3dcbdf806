"""AGW403 saved-tensor-changed: what backward needed was changed in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import Failure, backward_roots, failure, finding
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Statement, in_place_targets


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(
        record,
        r"has been modified by an inplace operation: \[(?P<type>[^\[\]]*(?:\[[^\]]*\])?)\]"
        r"(?:.*which is output \d+ of (?P<node>\w+))?"
        r".*is at version (?P<now>\d+); expected version (?P<then>\d+)",
    )
    if failed is None:
        return
    writer = _writer(failed)
    node = failed.match["node"]
    versions = f"{failed.match['then']} when it was saved, {failed.match['now']} now"
    evidence = [("saved tensor", failed.match["type"])]
    if node:
        evidence.append(("it was computed by", node))
    evidence.append(("version counter", versions))
    if writer is None:
        yield finding(
            RULE,
            failed,
            headline="backward needs a tensor that was changed in place after it was saved",
            why="The values that backward needs are gone.",
            instead="x = x + … in place of x += …, or change it after backward",
            evidence=tuple(evidence),
        )
        return
    evidence.append(("raised by", f"the backward at line {failed.line}"))
    what = _what(writer)
    yield finding(
        RULE,
        failed,
        at=writer,
        headline=f"{what} is changed in place here, and backward still needed its old values",
        why="An operation had saved it for backward. The version counter shows the change, so "
        "backward refuses rather than give a wrong gradient.",
        instead="step after all backwards"
        if _steps(writer)
        else "a new tensor (x = x + …; a list and torch.stack), or change it after backward",
        evidence=tuple(evidence),
    )


def _writer(failed: Failure) -> Statement | None:
    """Return the likeliest statement that wrote: on the way to the root, or an optimizer step."""
    if failed.statement is None:
        return None
    names, _ = backward_roots(failed.statement)
    way = failed.program.backward_slice(names, failed.statement)
    involved = set(names) | {name for s in way for name in (*s.targets, *s.reads)}
    for statement in way:
        if in_place_targets(statement.node) & involved:
            return statement
    before = [s for s in failed.program.statements(failed.cell) if s.line < failed.line]
    for statement in reversed(before):
        if _steps(statement) or in_place_targets(statement.node) & involved:
            return statement
    return None


def _steps(statement: Statement) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        for node in ast.walk(statement.node)
    )


def _what(writer: Statement) -> str:
    names = sorted(in_place_targets(writer.node))
    if names:
        return ", ".join(f"`{name}`" for name in names)
    return "every parameter of the optimizer" if _steps(writer) else "a tensor"


RULE = Rule(
    code="AGW403",
    name="saved-tensor-changed",
    severity=Severity.WRONG,
    summary="A tensor that backward needs was changed in place after it was saved.",
    why=(
        '"one of the variables needed for gradient computation has been modified by an inplace\n'
        'operation": an operation saved a tensor for its derivative, and something wrote into it\n'
        "before backward ran. The writer may be an indexed assignment into a buffer, `+=`, a\n"
        "method that ends in an underscore, or `optimizer.step()` between two backwards."
    ),
    bad="""\
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
p = torch.sigmoid(x)
p += 1
p.sum().backward()
""",
    good="""\
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
p = torch.sigmoid(x)
p = p + 1
p.sum().backward()
""",
    near_miss="""\
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
p = x * 2
p += 1      # nothing has saved p
p.sum().backward()
""",
    sources=(
        "<https://pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>",
        "`torch/csrc/autograd/saved_variable.cpp`, `SavedVariable::unpack`",
    ),
    check=check,
)
