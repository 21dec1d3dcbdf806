"""AGW106 data-edit-unrecorded: the loss has an edit through ``.data``, the gradient has not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, DamageKind, Finding, Severity
from ipy_autogradwatch.rules._damage import damages, finding
from ipy_autogradwatch.rules._rule import Rule

# Filling with minus infinity before a softmax: the softmax hands those elements a zero
# gradient, which is what the recorded fill would have done.
_MASKS = re.compile(r"\binf\b|\binfty\b|-\s*1e\d", re.IGNORECASE)


def check(record: CellRecord) -> Iterator[Finding]:
    for damage in damages(record, DamageKind.UNRECORDED):
        site = damage.site
        if _MASKS.search(site.statement):
            continue
        yield finding(
            RULE,
            damage,
            record,
            headline=f"`{site.receiver}` is edited through `.data` and then used: the loss has the "
            "edit, the gradient has not",
            evidence=(("used after the edit by", damage.node),),
            why=(
                f"The graph says how `{site.receiver}` was computed before this line, and nothing "
                "of the edit. Backward goes through as if there had been none."
            ),
            instead=f"a new tensor: {site.receiver} = {site.receiver} * …, .clamp(…), torch.where(…)",
        )


RULE = Rule(
    code="AGW106",
    name="data-edit-unrecorded",
    severity=Severity.WRONG,
    summary="A result is edited through `.data` and then used, and backward does not know.",
    why=(
        "An intermediate result carries the node that computed it. An edit through `.data`\n"
        "changes its values and adds no node, so whatever uses it afterwards is differentiated\n"
        "as if the edit were not there: a rescaling factor is missing, a clamp lets gradient\n"
        "through. `.detach()` is no cure: a write through it is as unrecorded."
    ),
    bad="""\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x * 3
h.data.mul_(10)
h.sum().backward()      # x.grad is 3; of what was computed it is 30
""",
    good="""\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x * 3
h = h * 10
h.sum().backward()
""",
    near_miss="""\
import torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x * 3
h.sum().backward()
x.grad = None
(x * 2).sum().backward()
""",
    sources=(
        "<https://pytorch.org/docs/stable/notes/autograd.html>",
        "`torch/csrc/autograd/variable.cpp`, `VariableHooks::variable_data`",
    ),
    check=check,
)
