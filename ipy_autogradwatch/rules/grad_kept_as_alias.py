"""AGW306 gradient-not-copied: a name that was to keep a gradient is the gradient itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, GradChange, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    kept = list(_kept(record))
    here = _held(record) if record.backwards else {}
    if not kept and not here:
        return
    program = Program(record.sources)
    said: set[tuple[int, int]] = set()
    for statement, name, leaf in (*_across(program, record, kept), *_within(program, record, here)):
        place = statement.cell, statement.line
        if place in said:
            continue
        said.add(place)
        yield finding_at(
            RULE,
            program,
            statement,
            headline=f"`{name}` is `{leaf}.grad` itself, not a copy: it has changed since",
            why="Backward adds to a gradient in place, and so do zero_() and clipping. A "
            "name for the gradient sees every change.",
            instead=f"{name} = {leaf}.grad.clone()",
            evidence=(("changed by", "this cell, which also reads it"),),
            variables=(name,),
        )


def _across(
    program: Program, record: CellRecord, kept: list[tuple[str, str]]
) -> Iterator[tuple[Statement, str, str]]:
    """Yield what gave a gradient the name that this cell reads after changing it."""
    here = program.statements(record.cell)
    for name, leaf in kept:
        readers = [statement for statement in here if name in statement.reads]
        bound = [s.line for s in here if name in s.targets and not s.is_in_place and not s.scope]
        readers = [reader for reader in readers if not bound or reader.line <= bound[0]]
        if not readers:
            continue
        for statement in program.assignments(name, readers[-1]):
            if any(read.endswith(".grad") for read in statement.reads):
                yield statement, name, leaf
                break


def _within(
    program: Program, record: CellRecord, held: dict[str, str]
) -> Iterator[tuple[Statement, str, str]]:
    """Yield ``prev = w.grad`` of this cell if, after a backward, it is compared with ``w.grad``."""
    here = [s for s in program.statements(record.cell) if s.scope == ""]
    if not held or any(map(_sets_to_none, here)):
        return
    lines = [call.site.span.line for call in record.backwards if call.site.cell == record.cell]
    for name, leaf in held.items():
        for statement in here:
            value = getattr(statement.node, "value", None)
            if name not in statement.targets or ast.unparse(value or ast.Pass()) != f"{leaf}.grad":
                continue
            for reader in here:
                is_both = name in reader.reads and f"{leaf}.grad" in reader.reads
                is_later = any(statement.line < line <= reader.line for line in lines)
                in_loop = bool(reader.loops) and reader.loops[:1] == statement.loops[:1]
                if is_both and (is_later or (in_loop and reader.line < statement.line)):
                    yield statement, name, leaf


def _held(record: CellRecord) -> dict[str, str]:
    """Return the variables that are a gradient at the end of the cell, and its leaf."""
    leaves = {
        state.grad.number: name
        for name, state in record.after.items()
        if state.grad is not None and state.grad.number is not None
    }
    return {
        alias: leaves[state.identity]
        for name, state in record.after.items()
        for alias in (name, *state.also)
        if alias.isidentifier() and state.identity in leaves
    }


def _sets_to_none(statement: Statement) -> bool:
    text = "" if hasattr(statement.node, "body") else ast.unparse(statement.node)
    return ".grad = None" in text or ("zero_grad(" in text and "set_to_none=False" not in text)


def _kept(record: CellRecord) -> Iterator[tuple[str, str]]:
    """Yield variables that hold a gradient which this cell has changed in place, and its leaf."""
    holders: dict[int, list[str]] = {}
    for name, state in record.before.items():
        aliases = [alias for alias in (name, *state.also) if alias.isidentifier()]
        holders.setdefault(state.identity, []).extend(aliases)
    for leaf, before in record.before.items():
        after = record.after.get(leaf)
        if before.grad is None or before.grad.number is None or after is None:
            continue
        changed = after.grad is not None and after.grad.identity in (
            GradChange.ACCUMULATED,
            GradChange.WRITTEN,
        )
        if changed:
            yield from ((holder, leaf) for holder in holders.get(before.grad.number, ()))


RULE = Rule(
    code="AGW306",
    name="gradient-not-copied",
    severity=Severity.WRONG,
    summary="A name that was to keep a gradient is the gradient itself, and has changed.",
    why=(
        "`prev = w.grad` gives the gradient another name. As long as `.grad` is not set to None the\n"
        "same tensor is used by the next backward, so `prev` and `w.grad` are always equal and\n"
        "their difference is zero."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
prev = w.grad
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
prev = w.grad.clone()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
prev = w.grad
w.grad = None      # the next backward makes a new one
""",
    then="""\
(w * w * w).sum().backward()
change = w.grad - prev
""",
    sources=(
        "`torch/csrc/autograd/functions/accumulate_grad.h`, `AccumulateGrad::accumulateGrad`",
    ),
    check=check,
)
