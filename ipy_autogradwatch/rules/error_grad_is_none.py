"""AGW410 gradient-is-none: an error, because a ``.grad`` is None."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, GradChange, Severity
from ipy_autogradwatch.rules._errors import failure, finding
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._source import dotted
from ipy_autogradwatch.rules.leaf_rebound import rebound


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, r"NoneType")
    if failed is None or failed.statement is None:
        return
    receivers = [
        dotted(node.value)
        for node in ast.walk(failed.statement.node)
        if isinstance(node, ast.Attribute) and node.attr == "grad"
    ]
    if not receivers:
        return
    if receivers[0] in {name for name, _ in rebound(record, failed.program)}:
        return  # Where the leaf was lost is where to look.
    empty = tuple(
        name
        for name, state in record.after.items()
        if state.requires_grad
        and state.is_leaf
        and (state.grad is None or state.grad.identity is GradChange.CLEARED)
    )
    state = record.after.get(receivers[0])
    if state is not None and not state.is_leaf:
        why = f"`{receivers[0]}` is the result of an operation; backward fills leaves only."
        instead = f"{receivers[0]}.retain_grad() before backward"
    elif empty:
        why = "No backward has reached it: it plays no part in a loss that was run backward."
        instead = "if p.grad is not None: …"
    else:
        why = "No backward has reached it."
        instead = "call backward first"
    yield finding(
        RULE,
        failed,
        headline=f"`{receivers[0]}.grad` is None" + (f" ({listed(empty)})" if empty else ""),
        why=why,
        instead=instead,
        evidence=(("without a gradient", listed(empty)),) if empty else (),
    )


RULE = Rule(
    code="AGW410",
    name="gradient-is-none",
    severity=Severity.WRONG,
    summary="A statement failed because a `.grad` is None.",
    why=(
        "`.grad` is None until a backward reaches the leaf: before the first one, after\n"
        "`zero_grad()`, for a parameter that the loss does not use, and for a tensor that is the\n"
        "result of an operation. Python then says \"'NoneType' object has no attribute\"."
    ),
    bad="""\
import torch
used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
(used * used).sum().backward()
for p in (used, unused):
    print(p.grad.norm())
""",
    good="""\
import torch
used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
(used * used).sum().backward()
for p in (used, unused):
    if p.grad is not None:
        print(p.grad.norm())
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
print(w.grad is None)
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.grad.html>",),
    check=check,
)
