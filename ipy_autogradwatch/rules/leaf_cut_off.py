"""AGW202 leaf-cut-off: a leaf gets no gradient, because its value left the graph on the way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ipy_autogradwatch.model import BackwardCall, CellRecord, Finding, GradChange, Severity
from ipy_autogradwatch.rules._cuts import Cut, cuts_in
from ipy_autogradwatch.rules._errors import backward_roots
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._source import Program, Statement, dotted
from ipy_autogradwatch.rules._steps import Holders, is_read


def check(record: CellRecord) -> Iterator[Finding]:
    missing = _missing(record)
    if not missing or record.error is not None:
        return
    way = Upstream(record)
    said: set[tuple[int, int]] = set()
    for call in record.backwards:
        if call.cut or call.site.consumer == "grad":
            continue
        found = list(way.cuts(call, missing))
        for cut, leaves in found:
            place = cut.statement.cell, cut.line
            if place not in said and not way.is_consequence(cut, leaves, found):
                said.add(place)
                finding = _finding(way, cut, leaves, call)
                yield (
                    replace(finding, severity=Severity.NOTE)
                    if way.is_inner(cut, leaves)
                    else finding
                )


def _missing(record: CellRecord) -> list[str]:
    """Return the leaves that require grad, have none, and were reached by no backward."""
    if not record.backwards or any(call.cut for call in record.backwards):
        return []
    reached = {name for call in record.backwards for name in call.reaches}
    return [
        name
        for name, state in record.after.items()
        if state.is_leaf
        and state.requires_grad
        and (state.grad is None or state.grad.identity is GradChange.CLEARED)
        and name not in reached
    ]


class Upstream:
    """What lies between the roots of a cell and its leaves."""

    def __init__(self, record: CellRecord) -> None:
        self.record = record
        self.program = Program(record.sources)
        self.holders = Holders(record, self.program)
        here = [s for s in self.program.statements(record.cell) if s.scope == ""]
        self.scopes = here[:1]
        for call in record.backwards:
            at = (
                None
                if call.site.cell is None
                else self.program.at(call.site.cell, call.site.span.line)
            )
            if at is not None and at.scope:
                self.scopes.append(at)

    def cuts(self, call: BackwardCall, missing: list[str]) -> Iterator[tuple[Cut, list[str]]]:
        """Yield the cuts on the way to the roots of *call*, with the leaves behind each."""
        if call.site.cell is None:
            return
        at = self.program.at(call.site.cell, call.site.span.line)
        if at is None:
            return
        names, _ = backward_roots(at)
        way = self.program.backward_slice(names, at)
        for statement in [at, *way]:
            for cut in cuts_in(statement):
                behind = self.behind(cut, [at, *way])
                leaves = [name for name in missing if {name, _owner(name)} & behind]
                leaves = [name for name in leaves if self.is_meant_to_train(name, cut)]
                if leaves:
                    yield cut, leaves
                    break

    def is_meant_to_train(self, leaf: str, cut: Cut) -> bool:
        """Whether somebody waits for a gradient of *leaf*.

        An optimizer that holds it is stepped; or there are no optimizers, the cut is none that
        people write to stop a gradient, and the cell looks at the gradient. A target network
        and a frozen teacher have neither.
        """
        if self.holders.in_optimizer(leaf):
            return self.holders.is_stepped(leaf, self.scopes)
        if is_on_purpose(cut) or not is_read(self.record, self.program, leaf):
            return False
        is_alone = leaf.isidentifier() or not self.record.after[leaf].is_parameter
        return is_alone or not (self.holders.optimizers or _is_data(cut))

    def is_inner(self, cut: Cut, leaves: list[str]) -> bool:
        """Whether a module stops the gradient inside itself, and the rest of it is trained.

        A backbone under ``no_grad`` in ``forward`` and an optimizer with all parameters: most
        often it is frozen so, which only the author knows.
        """
        if not is_on_purpose(cut) or "." not in cut.statement.scope:
            return False
        reached = {name for call in self.record.backwards for name in call.reaches}
        return {_owner(leaf) for leaf in leaves} <= {_owner(name) for name in reached}

    def is_consequence(
        self, cut: Cut, leaves: list[str], found: list[tuple[Cut, list[str]]]
    ) -> bool:
        """Whether what *cut* cuts off had already been cut off, nearer to the leaves."""
        names = _read_in(cut.node) if cut.node is not None else set(cut.statement.reads)
        upstream = self.program.backward_slice(sorted(names), cut.statement)
        return any(
            other is not cut and other.statement in upstream and set(leaves) <= set(behind)
            for other, behind in found
        )

    def behind(self, cut: Cut, way: list[Statement]) -> set[str]:
        """Return the names that the value which was cut off was computed from."""
        names = _read_in(cut.node) if cut.node is not None else set(cut.statement.reads)
        found = set(names)
        for statement in self.program.backward_slice(sorted(names), cut.statement):
            found |= statement.reads
        class_name = cut.statement.scope.partition(".")[0]
        if class_name:
            # In ``Net.forward``: the variables on the way that hold a Net.
            for statement in way:
                found |= {
                    name
                    for name in statement.reads
                    if name.isidentifier()
                    and class_name in self.program.classes_of(name, statement)
                }
        return found


def _read_in(node: ast.AST) -> set[str]:
    return {
        dotted(part)
        for part in ast.walk(node)
        if isinstance(part, (ast.Name, ast.Attribute)) and dotted(part)
    }


def _owner(name: str) -> str:
    return name.partition(".")[0].partition("[")[0]


def is_on_purpose(cut: Cut) -> bool:
    """Whether people write it to stop a gradient.

    A leaf behind one is missed only if this very cell steps an optimizer that holds it.
    """
    if cut.node is None:
        return True
    if isinstance(cut.node, ast.Call) and isinstance(cut.node.func, ast.Attribute):
        if cut.node.func.attr in ("detach", "detach_"):
            # ``.detach().requires_grad_()`` begins anew, and is no stop-gradient.
            return ".requires_grad_(" not in ast.unparse(cut.statement.node)
        return False
    return False


def _is_data(cut: Cut) -> bool:
    return isinstance(cut.node, ast.Attribute)


def _finding(way: Upstream, cut: Cut, leaves: list[str], call: BackwardCall) -> Finding:
    program, record, statement = way.program, way.record, cut.statement
    down = statement.line - statement.node.lineno
    line, column, end = cut.line, 0, 0
    if cut.node is not None:
        line = (getattr(cut.node, "end_lineno", None) or statement.node.lineno) + down
        same = getattr(cut.node, "lineno", 0) == getattr(cut.node, "end_lineno", 0)
        column = getattr(cut.node, "col_offset", 0) if same else 0
        end = getattr(cut.node, "end_col_offset", None) or 0
    source = program.text(statement.cell, line)
    if not end:
        column, end = len(source) - len(source.lstrip()), len(source.encode())
    roots = ", ".join(f"`{root}`" for root in call.roots)
    site = call.site
    where = f"line {site.span.line}" + ("" if site.cell == record.cell else f" of cell {site.cell}")
    return Finding(
        code=RULE.code,
        name=RULE.name,
        severity=RULE.severity,
        cell=statement.cell,
        file=None,
        line=line,
        column=column,
        end_line=line,
        end_column=max(end, column + 1),
        headline=f"{listed(tuple(leaves))} {'gets' if len(leaves) == 1 else 'get'} no gradient: "
        f"the graph is lost at `{cut.text}`",
        evidence=(
            ("backward", f"from {roots} at {where} does not reach {listed(tuple(leaves))}"),
            ("on the way", f"`{cut.text}`"),
        ),
        why=f"{cut.why} The rest of the computation is connected, so no error says so.",
        instead=cut.instead or "torch operations all the way, as x.exp() for math.exp(x.item())",
        variables=tuple(leaves),
        source=source,
    )


RULE = Rule(
    code="AGW202",
    name="leaf-cut-off",
    severity=Severity.WRONG,
    summary="A leaf gets no gradient, because its value left the graph on the way to the root.",
    why=(
        "A value that goes through `.data`, `.item()`, a Python or numpy number, `torch.tensor(...)`\n"
        "or `torch.no_grad()` comes out without its graph. As long as another part of the loss is\n"
        "connected, backward runs, and the leaves behind the cut keep `.grad` None: they are never\n"
        "trained. A `detach` or `no_grad` is reported only if the same cell steps an optimizer that\n"
        "holds the leaf: otherwise it may well be meant."
    ),
    bad="""\
import math
import torch
mu = torch.zeros(1, requires_grad=True)
log_sigma = torch.zeros(1, requires_grad=True)
sigma = math.exp(log_sigma.item())
loss = ((3 - mu) ** 2 / sigma ** 2).sum() + math.log(sigma)
loss.backward()
print(log_sigma.grad)
""",
    good="""\
import torch
mu = torch.zeros(1, requires_grad=True)
log_sigma = torch.zeros(1, requires_grad=True)
loss = ((3 - mu) ** 2 / log_sigma.exp() ** 2 + log_sigma).sum()
loss.backward()
""",
    near_miss="""\
import torch
from torch import nn
online, target = nn.Linear(2, 1), nn.Linear(2, 1)
opt = torch.optim.SGD(online.parameters(), lr=0.1)
x = torch.ones(3, 2)
with torch.no_grad():
    goal = target(x)      # a target network: meant to get none
loss = (online(x) - goal).square().mean()
opt.zero_grad()
loss.backward()
opt.step()
""",
    sources=(
        "<https://pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation>",
    ),
    check=check,
)
