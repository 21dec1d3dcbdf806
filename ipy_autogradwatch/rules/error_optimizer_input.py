"""AGW413 optimizer-without-leaves: an optimizer was given results, or nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules.generator_used_up import check as used_up

_OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "LBFGS", "NAdam", "RAdam")
_RAISED = (
    r"can't optimize a non-leaf Tensor|optimizer got an empty parameter list"
    r"|optimizer can only optimize Tensors, but one of the params is"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None or any(used_up(record)):
        return  # The loop before that used the generator up is the cause.
    text, part = given_to(failed.statement, *_OPTIMIZERS)
    yield finding(
        RULE,
        failed,
        headline=f"`{text or failed.line_text}` gives the optimizer no leaf to move",
        why="An optimizer moves leaves. A result is none, a generator gives its items once, and layers in a plain list or dict are not among the parameters of their module.",
        evidence=(("error", failed.match[0]),),
        instead="the leaves themselves: list(model.parameters()); nn.ModuleList for layers in a list",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW413",
    name="optimizer-without-leaves",
    severity=Severity.WRONG,
    summary="An optimizer was given tensors that are no leaves, or none at all.",
    why=(
        "An optimizer moves leaves: the tensors in which gradients end. A result (`w * 0.1`,\n"
        "`w.to(device)`) is none. No parameters at all means a generator that was used up, or a module\n"
        "whose layers stand in a plain list or dict, where `parameters()` does not look."
    ),
    bad="""\
import torch
w = torch.ones(3, requires_grad=True)
opt = torch.optim.SGD([w * 0.1], lr=0.1)
""",
    good="""\
import torch
w = (torch.ones(3) * 0.1).requires_grad_()
opt = torch.optim.SGD([w], lr=0.1)
""",
    near_miss="""\
import torch
w = torch.ones(3, requires_grad=True)
opt = torch.optim.SGD([{"params": [w]}], lr=0.1)
""",
    sources=("`torch/optim/optimizer.py`, `Optimizer.add_param_group`",),
    check=check,
)
