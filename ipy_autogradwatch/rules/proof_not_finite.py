"""AGW503 gradient-not-finite: the operation whose derivative made NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import listed
from ipy_autogradwatch.rules._verdict import finding, leaves, wrong_by_place


def check(record: CellRecord) -> Iterator[Finding]:
    for place, verdicts in wrong_by_place(record, "nonfinite"):
        reason = verdicts[0].reason
        hides = "hides the value" in reason
        found = finding(
            RULE,
            record,
            place,
            verdicts,
            headline=f"from here on the gradient of {listed(leaves(verdicts))} is NaN or Inf",
            why=f"{reason[:1].upper()}{reason[1:]}.",
            instead=(
                "make the argument safe before the operation: "
                "torch.sqrt(torch.where(x > 0, x, 1.0)), and choose after it"
                if hides
                else "keep the argument away from there, as in torch.sqrt(x + 1e-12)"
            ),
        )
        if found is not None:
            yield found


RULE = Rule(
    code="AGW503",
    name="gradient-not-finite",
    severity=Severity.WRONG,
    summary="The value is finite, and its gradient is NaN or Inf.",
    why=(
        "`torch.where(mask, f(x), g(x))` computes both, and gives the one that is not chosen a\n"
        "gradient of zero. Where the derivative of `f` is infinite there, or NaN, zero times it is\n"
        "NaN: the value is right, and the gradient is lost. A square root or a norm at zero has an\n"
        "infinite derivative of its own. `%%gradcheck` looks for the first operation whose\n"
        "derivative makes a gradient that is not finite of one that is."
    ),
    bad="""\
%%gradcheck
import torch
x = torch.tensor([-1.0, 4.0], requires_grad=True)
y = torch.where(x > 0, torch.sqrt(x), 0.1 * x)
y.sum().backward()
""",
    good="""\
%%gradcheck
import torch
x = torch.tensor([-1.0, 4.0], requires_grad=True)
safe = torch.where(x > 0, x, torch.ones_like(x))
y = torch.where(x > 0, torch.sqrt(safe), 0.1 * x)
y.sum().backward()
""",
    near_miss="""\
%%gradcheck
import torch
x = torch.tensor([1.0, 4.0], requires_grad=True)
y = torch.where(x > 0, torch.sqrt(x), 0.1 * x)
y.sum().backward()
""",
    sources=("<https://github.com/pytorch/pytorch/issues/68425>",),
    check=check,
)
