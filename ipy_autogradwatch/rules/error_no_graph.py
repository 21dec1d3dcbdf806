"""AGW401 backward-without-graph: backward on a tensor that has no graph."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._cuts import Cut, cuts_in, switched_off
from ipy_autogradwatch.rules._errors import Failure, backward_roots, failure, finding
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, r"does not require grad and does not have a grad_fn")
    if failed is None:
        return
    names, text = backward_roots(failed.statement)
    root = f"`{text}`" if text else "the root"
    cut = _first_cut(failed, names)
    if cut is None and record.grad_off:
        cut = switched_off(failed.program)
    if cut is None:
        yield finding(
            RULE,
            failed,
            headline=f"{root} has no graph: nothing that it was computed from requires grad",
            why="Backward needs a tensor that was computed, with gradients on, from a leaf that "
            "requires grad.",
            instead="x = torch.tensor(…, requires_grad=True) for what should get a gradient",
        )
        return
    other = "" if cut.statement.cell == failed.cell else f" of cell {failed.cell}"
    yield finding(
        RULE,
        failed,
        at=cut.statement,
        part=cut.node,
        line=cut.line,
        headline=f"{root} has no graph: it was lost at `{cut.text}`",
        why=f"{cut.why} So no leaf behind it gets a gradient, and `.grad` stays as it was.",
        instead=cut.instead,
        evidence=(("raised by", f"the backward at line {failed.line}{other}"),),
    )


def _first_cut(failed: Failure, names: list[str]) -> Cut | None:
    if failed.statement is None:
        return None
    for statement in [failed.statement, *failed.program.backward_slice(names, failed.statement)]:
        for cut in cuts_in(statement):
            return cut
    return None


RULE = Rule(
    code="AGW401",
    name="backward-without-graph",
    severity=Severity.WRONG,
    summary="Backward was called on a tensor that has no graph.",
    why=(
        '"element 0 of tensors does not require grad and does not have a grad_fn" says that the\n'
        "root was not computed from anything that requires grad, as far as autograd knows. Most\n"
        "often it was, and the graph was lost on the way: at `.detach()`, `.data`, `.item()`,\n"
        "under `torch.no_grad()`, in a numpy array, in `torch.tensor(...)` of tensors."
    ),
    bad="""\
import torch
x = torch.tensor([2.0], requires_grad=True)
y = x ** 2
z = y.detach()
z.backward()
""",
    good="""\
import torch
x = torch.tensor([2.0], requires_grad=True)
y = x ** 2
z = y.clone()
z.backward()
""",
    near_miss="""\
import torch
x = torch.tensor([2.0], requires_grad=True)
y = x ** 2
shown = y.detach()      # for looking at; y goes on
y.backward()
""",
    sources=("`torch/csrc/autograd/python_engine.cpp`, `THPEngine_run_backward`",),
    check=check,
)
