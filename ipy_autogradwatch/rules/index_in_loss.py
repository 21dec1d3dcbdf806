"""AGW203 index-in-loss: an index from ``argmax`` is used as a number in a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._roots import calls_in
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at
from ipy_autogradwatch.rules._terms import constant_terms

_CASTS = ("float", "double", "half", "to", "type")


def check(record: CellRecord) -> Iterator[Finding]:
    if not record.backwards or not any("argm" in source.python for source in record.sources):
        return
    program = Program(record.sources)
    said: set[tuple[int, int]] = set()
    for term in constant_terms(record, program):
        for statement in term.statements:
            node = _cast_index(statement)
            place = statement.cell, statement.line
            if node is None or place in said:
                continue
            said.add(place)
            yield finding_at(
                RULE,
                program,
                statement,
                part=node,
                headline=f"`{term.text}` carries no gradient: it is made of the indices "
                f"`{ast.unparse(node)}`",
                why="`argmax` returns positions, which have no derivative, and a cast to float "
                "does not bring one back. This part of the loss trains nothing.",
                instead="softmax(…) in place of argmax(…).float(), or a loss on the scores",
                evidence=(("part of", ", ".join(f"`{root}`" for root in term.way.call.roots)),),
            )


def _cast_index(statement: Statement) -> ast.Call | None:
    """Return ``x.argmax(...).float()`` if *statement* assigns it or computes with it."""
    if not isinstance(statement.node, (ast.Assign, ast.AugAssign, ast.Return)):
        return None
    for call in calls_in(statement):
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in _CASTS
            and isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr in ("argmax", "argmin")
        ):
            return call
    return None


RULE = Rule(
    code="AGW203",
    name="index-in-loss",
    severity=Severity.RISKY,
    summary="A part of a loss is computed from the indices of `argmax`, and trains nothing.",
    why=(
        "`argmax` and `argmin` return integers. They have no derivative, so what is computed from\n"
        "them is a constant to autograd; as long as another part of the loss is connected, no\n"
        "error says so."
    ),
    bad="""\
import torch
scores = torch.randn(4, 3, requires_grad=True)
hard = scores.argmax(dim=1).float()
loss = scores.square().mean() + hard.mean()
loss.backward()
""",
    good="""\
import torch
scores = torch.randn(4, 3, requires_grad=True)
soft = (scores.softmax(dim=1) * torch.arange(3.0)).sum(dim=1)
loss = scores.square().mean() + soft.mean()
loss.backward()
""",
    near_miss="""\
import torch
scores = torch.randn(4, 3, requires_grad=True)
labels = scores.argmax(dim=1)      # pseudo-labels: indices as indices
loss = torch.nn.functional.cross_entropy(scores, labels)
loss.backward()
""",
    sources=("`tools/autograd/derivatives.yaml`, output_differentiability of `argmax`",),
    check=check,
)
