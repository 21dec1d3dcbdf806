"""AGW105 data-overwrites-saved: a write through ``.data`` made a gradient wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Damage, DamageKind, Finding, Severity
from ipy_autogradwatch.rules._damage import damages, finding
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    for damage in damages(record, DamageKind.SAVED, DamageKind.SWAPPED):
        receiver = damage.site.receiver
        swapped = damage.kind is DamageKind.SWAPPED
        what = "exchanged the memory of" if swapped else "overwrote"
        yield finding(
            RULE,
            damage,
            record,
            headline=f"this line {what} `{receiver}`, which backward still needed: "
            "its gradients are wrong",
            evidence=(("saved by", f"{damage.node}, before this line ran"),),
            why=(
                "Backward computed with the new values. No error says so, because `.data` "
                "leaves the version counter alone, which is how autograd would have noticed."
            ),
            instead=_instead(damage),
        )


def _instead(damage: Damage) -> str:
    site = damage.site
    receiver = site.receiver
    if damage.kind is DamageKind.SWAPPED:
        return f"after backward: with torch.no_grad(): {receiver}.copy_(…)"
    if receiver in damage.leaves:
        plain = site.statement.replace(f"{receiver}.data", receiver)
        return (
            f"after backward: with torch.no_grad(): {plain}"
            if len(plain) < 60
            else ("after backward, under torch.no_grad()")
        )
    return f"a new tensor, as {receiver} = {receiver}.clamp(…); or write after backward"


RULE = Rule(
    code="AGW105",
    name="data-overwrites-saved",
    severity=Severity.WRONG,
    summary="A write through `.data` changed what a graph had saved, and backward used it.",
    why=(
        "Many operations save their inputs or their result for backward: `sigmoid` its result,\n"
        "a product both factors. Written before backward runs, the saved values are the new\n"
        "ones, and the gradient belongs to no function that was ever computed. A write through\n"
        "`.detach()` or under `torch.no_grad()` raises the version counter, and backward\n"
        'refuses: "modified by an inplace operation". Through `.data` the counter stays.'
    ),
    bad="""\
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
p = torch.sigmoid(x)      # saves p, for its derivative is p * (1 - p)
loss = p.sum()
p.data.mul_(0.5)
loss.backward()           # no error
""",
    good="""\
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
p = torch.sigmoid(x)
loss = p.sum()
half = p.detach() * 0.5
loss.backward()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    w.grad = None
    loss = (w * w).sum()      # saves w
    loss.backward()           # and has used it
    with torch.no_grad():
        w.sub_(w.grad, alpha=0.1)
""",
    sources=(
        "<https://pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks>",
        "`torch/csrc/autograd/saved_variable.cpp`, `SavedVariable::unpack`",
        "<https://github.com/pytorch/pytorch/issues/6990>",
    ),
    check=check,
)
