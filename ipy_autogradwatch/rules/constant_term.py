"""AGW206 constant-term: a part of a loss is a number to autograd, because the graph was lost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._cuts import Cut, cuts_in
from ipy_autogradwatch.rules._roots import Way, ways
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at
from ipy_autogradwatch.rules.leaf_cut_off import Upstream, is_on_purpose
from ipy_autogradwatch.rules.leaf_cut_off import check as check_leaves

MAX_DEPTH = 3
# Constants that are meant: they shift a value and train nothing.
_MEANT = re.compile(r"base|target|goal|old|prev|avg|mean|ema|running|best|log|const|offset")
_SAID_ELSEWHERE = ("argmax", "argmin")


def check(record: CellRecord) -> Iterator[Finding]:
    if record.error is not None or not record.backwards:
        return
    upstream: Upstream | None = None
    said: set[tuple[int | None, int]] = set()
    for way in ways(record, Program(record.sources)):
        for name, at in _constants(record, way):
            if upstream is None:
                upstream = Upstream(record)
                said = {(found.cell, found.line) for found in check_leaves(record)}
            cut = _cut(upstream, name, at)
            if cut is None or (cut.statement.cell, cut.line) in said:
                continue
            said.add((cut.statement.cell, cut.line))
            yield finding_at(
                RULE,
                upstream.program,
                cut.statement,
                part=cut.node,
                headline=f"`{name}` is a constant to autograd: its graph is lost at `{cut.text}`",
                why=f"{cut.why} This part of the loss has a value and no gradient; the other "
                "parts are connected, so no error says so.",
                instead=cut.instead or "compute it with tensor operations",
                evidence=(
                    ("part of", ", ".join(f"`{root}`" for root in way.call.roots)),
                    (f"{name}.requires_grad", "False"),
                ),
                variables=(name,),
            )


def _constants(record: CellRecord, way: Way) -> Iterator[tuple[str, Statement]]:
    """Yield the terms of a sum that backward starts from and that have no graph."""
    if not way.call.requires_grad:
        return
    for name, at in _terms(way):
        state = record.after.get(name)
        if (
            state is not None
            and state.shape == ()
            and not state.requires_grad
            and state.dtype.startswith(("float", "bfloat"))
            and not _MEANT.search(name)
        ):
            yield name, at


def _terms(way: Way) -> Iterator[tuple[str, Statement]]:
    """Yield the names that are added up to the root, and where."""
    start = way.statements[0]
    todo = [(value, start, 0) for value in _roots(start)]
    while todo:
        value, at, depth = todo.pop()
        for name in _summands(value):
            yield name, at
            if depth < MAX_DEPTH:
                todo += [
                    (statement.node.value, statement, depth + 1)
                    for statement in way.statements[1:]
                    if isinstance(statement.node, ast.Assign)
                    and name in statement.targets
                    and statement.scope == ""
                ]


def _roots(at: Statement) -> Iterator[ast.expr]:
    for node in ast.walk(at.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "backward":
                yield node.func.value


def _summands(value: ast.expr) -> Iterator[str]:
    """Yield ``a``, ``b`` and ``c`` of ``a + 2 * b - c / 3``."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from _summands(value.left)
        yield from _summands(value.right)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Div)):
        if isinstance(value.left, ast.Constant):
            yield from _summands(value.right)
        elif isinstance(value.right, ast.Constant):
            yield from _summands(value.left)


def _cut(upstream: Upstream, name: str, at: Statement) -> Cut | None:
    """Return where the graph of *name* was lost, if a leaf that requires grad is behind it."""
    leaves = {
        part
        for leaf, state in upstream.record.after.items()
        if state.is_leaf and state.requires_grad
        for part in (leaf, leaf.partition(".")[0].partition("[")[0])
    }
    way = upstream.program.backward_slice([name], at)
    for statement in way:
        for cut in cuts_in(statement):
            if is_on_purpose(cut):
                return None
            if isinstance(cut.node, ast.Call) and isinstance(cut.node.func, ast.Attribute):
                if cut.node.func.attr in _SAID_ELSEWHERE:
                    return None
            if leaves & upstream.behind(cut, way):
                return cut
    return None


RULE = Rule(
    code="AGW206",
    name="constant-term",
    severity=Severity.RISKY,
    summary="A term of a loss has no graph, because its values left it on the way.",
    why=(
        "`loss = a + b` is differentiable as long as one of the two is. When `b` was computed from\n"
        "`.data`, from numpy or from Python numbers, it is a constant: the loss shows it, its\n"
        "gradient is zero, and no parameter ever learns from it. Where all leaves get a gradient\n"
        "from `a`, nothing looks wrong."
    ),
    bad="""\
import torch
w = torch.ones(3, requires_grad=True)
pred = w * 2
fit = (pred - 1).square().mean()
size = torch.tensor((pred ** 2).mean().item())
loss = fit + 0.1 * size
loss.backward()
""",
    good="""\
import torch
w = torch.ones(3, requires_grad=True)
pred = w * 2
fit = (pred - 1).square().mean()
size = (pred ** 2).mean()
loss = fit + 0.1 * size
loss.backward()
""",
    near_miss="""\
import torch
w = torch.ones(3, requires_grad=True)
pred = w * 2
fit = (pred - 1).square().mean()
size = torch.tensor((pred ** 2).mean().item())
fit.backward()
print((fit + 0.1 * size).item())      # only shown
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html>",),
    check=check,
)
