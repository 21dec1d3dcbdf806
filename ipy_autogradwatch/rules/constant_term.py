"""AGW206 constant-term: a part of a loss is a number to autograd, because the graph was lost."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules import index_in_loss, penalty_without_graph
from ipy_autogradwatch.rules._cuts import Cut, cuts_in
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program
from ipy_autogradwatch.rules._statement import finding_at
from ipy_autogradwatch.rules._terms import ConstantTerm, constant_terms
from ipy_autogradwatch.rules.leaf_cut_off import Upstream, is_on_purpose
from ipy_autogradwatch.rules.leaf_cut_off import check as check_leaves

_SAID_ELSEWHERE = ("argmax", "argmin", "nonzero")


def check(record: CellRecord) -> Iterator[Finding]:
    if not record.backwards:
        return
    terms = list(constant_terms(record, Program(record.sources)))
    if not terms:
        return
    upstream = Upstream(record)
    said = {
        (found.cell, found.line)
        for rule in (check_leaves, index_in_loss.check, penalty_without_graph.check)
        for found in rule(record)
    }
    for term in terms:
        cut = _cut(upstream, term)
        if cut is None or (cut.statement.cell, cut.line) in said:
            continue
        said.add((cut.statement.cell, cut.line))
        yield finding_at(
            RULE,
            upstream.program,
            cut.statement,
            part=cut.node,
            headline=f"`{term.text}` is a constant to autograd: its graph is lost at `{cut.text}`",
            why=f"{cut.why} This part of the loss has a value and no gradient; the other parts "
            "are connected, so no error says so.",
            instead=cut.instead or "compute it with tensor operations",
            evidence=(
                ("part of", ", ".join(f"`{root}`" for root in term.way.call.roots)),
                (f"{term.text}.requires_grad", "False"),
            ),
            variables=(term.text,) if term.text.isidentifier() else (),
        )


def _cut(upstream: Upstream, term: ConstantTerm) -> Cut | None:
    """Return where the graph was lost, if a leaf that requires grad is behind it."""
    leaves = {
        part
        for leaf, state in upstream.record.after.items()
        if state.is_leaf and state.requires_grad
        for part in (leaf, leaf.partition(".")[0].partition("[")[0])
    }
    for statement in term.statements:
        for cut in cuts_in(statement):
            if statement is term.at and cut.text not in term.text:
                continue
            if is_on_purpose(cut):
                return None
            function = cut.node.func if isinstance(cut.node, ast.Call) else None
            if isinstance(function, ast.Attribute) and function.attr in _SAID_ELSEWHERE:
                return None
            if leaves & upstream.behind(cut, list(term.statements)):
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
