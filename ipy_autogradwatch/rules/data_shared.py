"""AGW110 data-shared: two tensors on one memory since ``x.data = y.data``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, GradChange, Severity, TensorState
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._statement import finding_at


def check(record: CellRecord) -> Iterator[Finding]:
    pairs = list(_dragged_along(record))
    if not pairs:
        return
    program = Program(record.sources)
    for statement in program.newest_first():
        if _shares(statement):
            followers = tuple(follower for follower, _ in pairs)
            yield finding_at(
                RULE,
                program,
                statement,
                headline=f"since this line {listed(followers)} "
                f"{'shares' if len(followers) == 1 else 'share'} memory with "
                f"{listed(tuple(leader for _, leader in pairs))}, and just changed with it",
                why="`x.data = y.data` copies nothing: both tensors are on one memory, and every "
                "update of one is an update of the other.",
                instead="target.load_state_dict(online.state_dict()), or x.copy_(y) under no_grad",
                evidence=(("written in this cell", listed(tuple(leader for _, leader in pairs))),),
                variables=followers,
            )
            return


def _dragged_along(record: CellRecord) -> Iterator[tuple[str, str]]:
    """Yield leaves without a gradient that an update of another leaf has just changed."""
    by_storage: dict[int, list[str]] = {}
    for name, state in record.after.items():
        if state.storage is not None and state.is_leaf and state.requires_grad:
            by_storage.setdefault(state.storage, []).append(name)
    for names in by_storage.values():
        leaders = [name for name in names if _was_updated(record, name)]
        followers = [name for name in names if not _has_gradient(record.after[name])]
        for follower in followers:
            before = record.before.get(follower)
            shared_before = before is not None and before.storage == record.after[follower].storage
            if leaders and shared_before and leaders[0] != follower:
                yield follower, leaders[0]


def _was_updated(record: CellRecord, name: str) -> bool:
    before, after = record.before.get(name), record.after[name]
    return (
        before is not None
        and before.identity == after.identity
        and before.version != after.version
        and _has_gradient(after)
    )


def _has_gradient(state: TensorState) -> bool:
    return state.grad is not None and state.grad.identity is not GradChange.CLEARED


def _shares(statement: Statement) -> bool:
    node = statement.node
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "data"
        and any(isinstance(t, ast.Attribute) and t.attr == "data" for t in node.targets)
    )


RULE = Rule(
    code="AGW110",
    name="data-shared",
    severity=Severity.WRONG,
    summary="A tensor follows the updates of another, because `x.data = y.data` shares memory.",
    why=(
        "`x.data = y.data` reads like a copy and is none. A target network, a snapshot or a second\n"
        "model that was filled this way moves with every step of the first, and nothing says so."
    ),
    bad="""\
import torch
online, target = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
target.data = online.data
""",
    good="""\
import torch
online, target = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
with torch.no_grad():
    target.copy_(online)
""",
    near_miss="""\
import torch
online, target = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
target.data.copy_(online.data)      # copies elements
""",
    then="""\
online.sum().backward()
with torch.no_grad():
    online -= 0.1 * online.grad
""",
    sources=("`torch/csrc/autograd/variable.cpp`, `VariableHooks::set_data`",),
    check=check,
)
