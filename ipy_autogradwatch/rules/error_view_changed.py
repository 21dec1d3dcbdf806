"""AGW417 view-changed-in-place: an in-place operation on a view that must not be changed."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding, given_to
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._source import in_place_targets

_RAISED = (
    r"(is a view and (is|its base or another view of its base has been) (being )?modified in-?place)"
    r"|Can't detach views in-place|A view was created (in no_grad|without the no_grad|inside)[^.]*modified inplace"
    r"|is a view of a view which was created in (no_grad|inference)"
)


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, _RAISED)
    if failed is None:
        return
    text, part = given_to(
        failed.statement,
        "detach_",
        "add_",
        "mul_",
        "sub_",
        "div_",
        "copy_",
        "zero_",
        "fill_",
        "clamp_",
        "relu_",
    )
    names = sorted(in_place_targets(failed.statement.node)) if failed.statement else []
    who = text or (names[0] if names else failed.line_text)
    yield finding(
        RULE,
        failed,
        headline=f"`{who}` is a view whose write autograd cannot record",
        why="A write through a view is a write into its base. For this kind of view the graph has no way to say so.",
        evidence=(("error", " ".join(failed.match[0].split())),),
        instead="a new tensor, as a = a + 1; or y[0] instead of y.unbind()[0]",
        at=failed.statement,
        part=part,
    )


RULE = Rule(
    code="AGW417",
    name="view-changed-in-place",
    severity=Severity.WRONG,
    summary="A view of something that was recorded otherwise is changed in place.",
    why=(
        "A write through a view is a write into its base, and autograd must be able to say so in the\n"
        "graph. It cannot where one operation made several views at once (`unbind`, `split`, `chunk`), or\n"
        "where the view was made with gradients off and is written with gradients on."
    ),
    bad="""\
import torch
x = torch.ones(3, 2, requires_grad=True)
y = x * 2
a, b, c = y.unbind()
a += 1
""",
    good="""\
import torch
x = torch.ones(3, 2, requires_grad=True)
y = x * 2
a, b, c = y.unbind()
a = a + 1
""",
    near_miss="""\
import torch
x = torch.ones(3, 2, requires_grad=True)
y = x * 2
a = y[0]      # one view: its write can be recorded
a += 1
""",
    sources=("`torch/csrc/autograd/variable.cpp`, `handle_view_on_rebase`",),
    check=check,
)
