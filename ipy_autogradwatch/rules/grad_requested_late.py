"""AGW302 requires-grad-too-late: the graph was made before the leaf required grad."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import backward_roots
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import finding_at
from ipy_autogradwatch.rules._source import Program, Statement


def check(record: CellRecord) -> Iterator[Finding]:
    program: Program | None = None
    for call in record.backwards:
        for site in call.late:
            if call.site.cell is None or site.cell is None:
                continue
            program = program or Program(record.sources)
            at = program.at(call.site.cell, call.site.span.line)
            names, text = backward_roots(at)
            if at is None or site.receiver not in _read_by(program, names, at):
                continue
            yield finding_at(
                RULE,
                site,
                headline=f"`{site.receiver}` requires grad only from here on: `{text}` was computed "
                "before, without it",
                why="Autograd records an operation when it runs. A tensor that did not require "
                f"grad then is no part of the graph, so `{site.receiver}.grad` stays None.",
                instead="set requires_grad before the forward",
                evidence=(("backward from", f"`{text}`, whose graph is older than this line"),),
                variables=(site.receiver,),
            )


def _read_by(program: Program, names: list[str], at: Statement) -> set[str]:
    way = program.backward_slice(names, at)
    return {name for statement in way for name in statement.reads}


RULE = Rule(
    code="AGW302",
    name="requires-grad-too-late",
    severity=Severity.WRONG,
    summary="A tensor was made to require grad after the graph that uses it was recorded.",
    why=(
        "The graph is recorded while the forward runs. `requires_grad` set afterwards holds for\n"
        "the next forward; the graph that exists has no edge to this tensor, and no error says so."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
x = torch.ones(2)
loss = (w * x).sum()
x.requires_grad = True
loss.backward()
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
x = torch.ones(2)
x.requires_grad = True
loss = (w * x).sum()
loss.backward()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
loss = (w * 2).sum()
x = torch.ones(2, requires_grad=True)      # for later, and no part of loss
loss.backward()
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad>",),
    check=check,
)
