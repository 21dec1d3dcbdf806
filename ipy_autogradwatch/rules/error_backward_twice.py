"""AGW404 backward-twice: backward goes through a graph that is freed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import Failure, backward_roots, failure, finding
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import Statement


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, r"Trying to backward through the graph a second time")
    if failed is None:
        return
    names, text = backward_roots(failed.statement)
    root = f"`{text}`" if text else "the root"
    found = _carrier(failed, names)
    if found is None:
        yield finding(
            RULE,
            failed,
            headline=f"backward from {root} goes through a graph that an earlier backward freed",
            why="Backward frees what the graph has saved. Here it meets a part that is shared with "
            "an earlier root.",
            instead="compute the shared part again, or retain_graph=True at the first backward",
        )
        return
    statement, name = found
    dropped = _dropped_detach(failed, statement, name)
    yield finding(
        RULE,
        failed,
        at=dropped or statement,
        headline=(
            f"`{name}.detach()` returns a tensor that is not used: `{name}` keeps its graph"
            if dropped
            else f"`{name}` carries the graph of the round before into this one"
        ),
        why="The backward of the round before has freed that part of the graph, and this one goes "
        "through it again.",
        instead=f"{name} = {name}.detach() between the rounds",
        evidence=(("raised by", f"the backward from {root} at line {failed.line}"),),
    )


def _carrier(failed: Failure, names: list[str]) -> tuple[Statement, str] | None:
    """Return the statement in a loop (or a function called in one) that uses its last result."""
    at = failed.statement
    if at is None:
        return None
    way = failed.program.backward_slice(names, at)
    for statement in [*way, *_called(failed, way)]:
        in_loop = bool(set(statement.loops) & set(at.loops)) and statement.cell == at.cell
        if not (in_loop or statement.scope):
            continue
        carried = sorted(statement.targets & statement.reads, key=len)
        carried = [name for name in carried if statement.scope == "" or "." in name]
        if carried and isinstance(statement.node, (ast.Assign, ast.AugAssign)):
            return statement, carried[0]
    return None


def _called(failed: Failure, way: list[Statement]) -> Iterator[Statement]:
    """Yield the statements of the functions that the way leads through."""
    scopes = {statement.scope for statement in way if statement.scope}
    for cell in sorted({statement.cell for statement in way}):
        yield from (s for s in failed.program.statements(cell) if s.scope in scopes)


def _dropped_detach(failed: Failure, statement: Statement, name: str) -> Statement | None:
    for other in failed.program.statements(statement.cell):
        if isinstance(other.node, ast.Expr) and other.scope == statement.scope:
            text = ast.unparse(other.node)
            if text == f"{name}.detach()":
                return other
    return None


RULE = Rule(
    code="AGW404",
    name="backward-twice",
    severity=Severity.WRONG,
    summary="Backward goes through a part of a graph that an earlier backward has freed.",
    why=(
        '"Trying to backward through the graph a second time": backward frees the tensors that\n'
        "the graph has saved. A hidden state, a running value or a module's buffer that is carried\n"
        "from one step to the next with its graph leads the next backward into the freed part.\n"
        "`retain_graph=True` silences the error and lets the graph grow without end."
    ),
    bad="""\
import torch
w = torch.tensor(0.5, requires_grad=True)
h = torch.tensor(1.0)
for _ in range(2):
    h = torch.tanh(w * h)
    h.backward()
""",
    good="""\
import torch
w = torch.tensor(0.5, requires_grad=True)
h = torch.tensor(1.0)
for _ in range(2):
    h = torch.tanh(w * h)
    h.backward()
    h = h.detach()
""",
    near_miss="""\
import torch
w = torch.tensor(0.5, requires_grad=True)
loss = torch.tanh(w) ** 2
loss.backward(retain_graph=True)      # kept on purpose
loss.backward()
""",
    sources=("`torch/csrc/autograd/saved_variable.cpp`, `ERR_BACKWARD_TWICE`",),
    check=check,
)
