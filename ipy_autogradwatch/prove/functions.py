"""Is the ``backward`` of a custom Function the derivative of its ``forward``?

Asked where it was called, with the gradient that it was given: what it returned there is
compared with reverse mode over the replay of what its forward did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ipy_autogradwatch.prove.aten import PIECEWISE_CONSTANT, known_facts
from ipy_autogradwatch.prove.comparing import Gradients, Question
from ipy_autogradwatch.prove.tape import FunctionCall, Op

Captured = Mapping[int, tuple[tuple[torch.Tensor | None, ...], tuple[torch.Tensor | None, ...]]]
"""Sequence number of a node to what its backward returned and was given."""

_TOLERANCE = {torch.float64: 1e-6, torch.complex128: 1e-6, torch.float32: 2e-3}
_COPIES = frozenset(
    f"aten::{n}" for n in ("view", "clone", "alias", "detach", "_to_copy", "expand", "view_as")
)


@dataclass(frozen=True, slots=True)
class FunctionCheck:
    """One call, checked.

    Attributes:
        position: Of the input whose gradient is off most.
        surrogate: Why another gradient than the derivative must be meant, or an empty string.
    """

    call: FunctionCall
    is_right: bool
    relative_error: float
    position: int
    surrogate: str

    @property
    def is_surrogate(self) -> bool:
        """Whether the gradient is another one on purpose, as in a straight-through estimator."""
        return bool(self.surrogate)


def check_functions(
    question: Question, gradients: Gradients, captured: Captured
) -> list[FunctionCheck]:
    """Return a check of each call whose backward was seen.

    Args:
        question: The backward.
        gradients: Of the replay as written, whose graph was retained.
        captured: What nodes of custom Functions returned and were given.
    """
    checks = []
    for call in question.tape.calls:
        if call.sequence in captured and call.name:
            found = _check(question, gradients, call, *captured[call.sequence])
            if found is not None:
                checks.append(found)
    return checks


def _check(
    question: Question,
    gradients: Gradients,
    call: FunctionCall,
    returned: tuple[torch.Tensor | None, ...],
    given: tuple[torch.Tensor | None, ...],
) -> FunctionCheck | None:
    replay = gradients.replay
    inputs = replay.inputs_of_calls.get(call.sequence)
    output = replay.outputs_of_calls.get(call.sequence)
    if inputs is None or output is None or not given or given[0] is None:
        return None
    wanted = [(i, t) for i, t in enumerate(inputs) if t is not None and t.requires_grad]
    if not wanted:
        return None
    true = _products(output, [t for _, t in wanted], given[0])
    if true is None:
        return None
    error, position, moves = 0.0, 0, False
    for (index, tensor), right in zip(wanted, true, strict=True):
        got = returned[index] if index < len(returned) else None
        zero = torch.zeros_like(tensor)
        a = zero if got is None else got.to(zero.dtype).reshape(zero.shape)
        b = zero if right is None else right
        moves = moves or bool(b.count_nonzero())
        size = max(float(a.norm()), float(b.norm()))
        relative = float((a - b).norm()) / size if size else 0.0
        if relative > error:
            error, position = relative, index
    tolerance = _TOLERANCE.get(given[0].dtype, 5e-2)
    return FunctionCheck(
        call, error <= tolerance, error, position, _surrogate(question, call, moves)
    )


def _products(
    output: torch.Tensor, inputs: list[torch.Tensor], given: torch.Tensor
) -> tuple[torch.Tensor | None, ...] | None:
    if not output.requires_grad:
        return tuple(None for _ in inputs)
    if given.shape != output.shape:
        return None
    return torch.autograd.grad(
        output, inputs, given.to(output.dtype), allow_unused=True, retain_graph=True
    )


def _surrogate(question: Question, call: FunctionCall, moves: bool) -> str:
    ops = [e for e in question.entries if isinstance(e, Op) and e.call is call]
    names = [known_facts(op.function).name for op in ops]
    if all(name in _COPIES for name in names):
        return "its forward only passes its input on"
    if not moves:
        return "the derivative of its forward is zero everywhere"
    if any(name in PIECEWISE_CONSTANT for name in names):
        return "its forward rounds, or takes a sign"
    return ""
