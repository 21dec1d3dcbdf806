"""AGW405 inference-tensor-in-training: a tensor of inference mode enters a graph."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import CellRecord, Finding, Severity
from ipy_autogradwatch.rules._errors import failure, finding
from ipy_autogradwatch.rules._rule import Rule


def check(record: CellRecord) -> Iterator[Finding]:
    failed = failure(record, r"[Ii]nference tensors? (cannot|does not|outside InferenceMode)")
    if failed is None:
        return
    at = failed.statement
    way = [] if at is None else failed.program.backward_slice(sorted(at.reads), at)
    maker = next(
        (
            s
            for s in way
            if s.under and "inference_mode" in failed.program.text(s.cell, s.under[-1])
        ),
        None,
    )
    name = sorted(maker.targets)[0] if maker is not None and maker.targets else "a tensor"
    yield finding(
        RULE,
        failed,
        at=maker,
        headline=f"`{name}` was made in inference mode and cannot take part in training"
        if maker
        else "a tensor made in inference mode is used where a graph is recorded",
        why="Tensors of inference mode have no version counter, so autograd cannot save them.",
        instead=f"torch.no_grad() in place of inference_mode, or {name}.clone() outside of it"
        if maker
        else "torch.no_grad() in place of torch.inference_mode()",
        evidence=(("raised by", f"line {failed.line}"),),
    )


RULE = Rule(
    code="AGW405",
    name="inference-tensor-in-training",
    severity=Severity.WRONG,
    summary="A tensor made in inference mode is used where a graph is recorded.",
    why=(
        "`torch.inference_mode()` is `no_grad` and more: its tensors carry no version counter and\n"
        "can never be saved for a backward. `torch.no_grad()` is enough for features of a frozen\n"
        "backbone; a clone outside of inference mode is an ordinary tensor again."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
with torch.inference_mode():
    feature = torch.ones(2) * 3
loss = (w * feature).sum()
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
with torch.no_grad():
    feature = torch.ones(2) * 3
loss = (w * feature).sum()
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
with torch.inference_mode():
    seen = (w * 2).sum().item()
loss = (w * seen).sum()
""",
    sources=("<https://pytorch.org/docs/stable/notes/autograd.html#inference-mode>",),
    check=check,
)
