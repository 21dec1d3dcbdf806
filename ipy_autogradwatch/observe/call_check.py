"""``torch.autograd.gradcheck`` on one call, with an answer in the user's names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

MAX_ELEMENTS = 2_000
"""Of one input, when the worst element is looked for."""
_EPS = 1e-6
_ATOL, _RTOL = 1e-5, 1e-3


class NothingToCheck(ValueError):
    """Raised when a call has no tensor that could have a gradient."""


def is_tensor(value: object) -> bool:
    """Whether *value* is a tensor, as PyTorch itself would say."""
    return isinstance(value, torch.Tensor)


@dataclass(frozen=True, slots=True)
class CallCheck:
    """What came out of checking one call.

    Attributes:
        verdict: ``right``, ``wrong``, ``vacuous`` or ``undecided``.
        detail: One line that says why.
        worst: Input, index of its worst element, analytical and numerical derivative.
        remarks: What was done to the call: promoted inputs, fixed random numbers.
    """

    verdict: str
    detail: str
    worst: tuple[str, tuple[int, ...], float, float] | None = None
    remarks: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        yield f"{self.verdict}: {self.detail}"
        if self.worst is not None:
            name, index, analytical, numerical = self.worst
            place = name + (f"[{', '.join(map(str, index))}]" if index else "")
            yield f"worst at {place}: backward gives {analytical:.6g}, differences {numerical:.6g}"
        for remark in self.remarks:
            yield f"({remark})"


def check_gradients(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    names: tuple[str, ...],
) -> CallCheck:
    """Compare the gradients of ``function(*arguments, **keywords)`` with finite differences.

    Inputs are copies in double precision, so nothing of the user's is written; a module is
    copied too. Checked are the inputs that require grad or, if none does, all that could.
    The state of the random number generators is put back.

    Raises:
        NothingToCheck: No argument is a floating-point or complex tensor.
    """
    named = dict(zip(names, arguments, strict=False)) | keywords
    remarks: list[str] = []
    inputs = _inputs(named, remarks)
    if isinstance(function, torch.nn.Module):
        function = copy.deepcopy(function).double()
        remarks.append("the module was copied in float64")
    call = _Call(function, arguments, keywords, names, inputs)
    with _generators_kept():
        return _check(call, remarks)


class _Call:
    """The call as a function of the inputs that are checked."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        names: tuple[str, ...],
        inputs: dict[str, torch.Tensor],
    ) -> None:
        self.inputs = inputs
        self._function = function
        self._arguments = tuple(_promoted(value) for value in arguments)
        self._keywords = {name: _promoted(value) for name, value in keywords.items()}
        self._names = names
        self.seed: int | None = None

    def __call__(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the differentiable outputs, with *values* in place of the inputs."""
        if self.seed is not None:
            torch.manual_seed(self.seed)
        given = dict(zip(self.inputs, values, strict=True))
        arguments = [given.get(n, v) for n, v in zip(self._names, self._arguments, strict=True)]
        keywords = {name: given.get(name, value) for name, value in self._keywords.items()}
        result = self._function(*arguments, **keywords)
        listed = result if isinstance(result, (tuple, list)) else (result,)
        return tuple(
            item
            for item in listed
            if isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex())
        )


def _inputs(named: dict[str, Any], remarks: list[str]) -> dict[str, torch.Tensor]:
    able = {
        name: value
        for name, value in named.items()
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    }
    if not able:
        raise NothingToCheck("no argument is a tensor of floating-point numbers")
    asked = {name: value for name, value in able.items() if value.requires_grad}
    if not asked:
        remarks.append("no argument requires grad: all are checked")
    lower = [name for name, value in able.items() if value.dtype not in _DOUBLES]
    if lower:
        remarks.append(f"{', '.join(lower)} checked in double precision")
    return {name: _promoted(value).requires_grad_() for name, value in (asked or able).items()}


_DOUBLES = (torch.float64, torch.complex128)


def _promoted(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return value.detach().to(torch.complex128).clone()
    if value.is_floating_point():
        return value.detach().to(torch.float64).clone()
    return value


@contextmanager
def _generators_kept() -> Iterator[None]:
    with torch.random.fork_rng(), torch.enable_grad():
        yield


def _check(call: _Call, remarks: list[str]) -> CallCheck:
    values = tuple(call.inputs.values())
    outputs = call(*values)
    if not outputs:
        return CallCheck("vacuous", "no output is a tensor of floating-point numbers")
    if not any(output.requires_grad for output in outputs):
        return _disconnected(call, outputs, remarks)
    if not _same(outputs, call(*values)):
        call.seed = torch.initial_seed() % 2**31
        if not _same(call(*values), call(*values)):
            return CallCheck(
                "undecided",
                "two calls with the same inputs give different results",
                None,
                tuple(remarks),
            )
        remarks.append("the function draws random numbers: checked with the same ones each time")
    try:
        torch.autograd.gradcheck(call, values, eps=_EPS, atol=_ATOL, rtol=_RTOL)
    except GradcheckError as error:
        return _explain(call, str(error), remarks)
    if all(_derivative_is_zero(call, values)):
        return CallCheck(
            "vacuous",
            "every derivative is zero, by backward and by differences: nothing was checked",
            None,
            tuple(remarks),
        )
    return CallCheck(
        "right",
        "backward agrees with finite differences for " + ", ".join(call.inputs),
        None,
        tuple(remarks),
    )


def _disconnected(call: _Call, outputs: tuple[torch.Tensor, ...], remarks: list[str]) -> CallCheck:
    """The outputs require no grad: because they are constant, or because of a cut?"""
    worst = _worst(call)
    if worst is None or worst[3] == 0:
        detail = "the result has no graph and does not depend on the inputs: nothing was checked"
        return CallCheck("vacuous", detail, None, tuple(remarks))
    detail = "the result depends on the inputs and has no graph: something cut it"
    return CallCheck("wrong", detail, worst, tuple(remarks))


def _explain(call: _Call, message: str, remarks: list[str]) -> CallCheck:
    if "reentrant" in message or "not deterministic" in message.lower():
        detail = "backward gives different gradients when it runs twice on the same inputs"
        return CallCheck("undecided", detail, None, tuple(remarks))
    worst = _worst(call)
    detail = "backward disagrees with finite differences"
    if worst is not None:
        detail += f" for {worst[0]}"
    return CallCheck("wrong", detail, worst, tuple(remarks))


def _same(first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(torch.nan_to_num(a.detach()), torch.nan_to_num(b.detach()))
        for a, b in zip(first, second, strict=True)
    )


def _derivative_is_zero(call: _Call, values: tuple[torch.Tensor, ...]) -> Iterator[bool]:
    outputs = [output for output in call(*values) if output.requires_grad]
    weights = [torch.rand_like(output) + 0.5 for output in outputs]
    found: list[torch.Tensor | None] = []
    found += torch.autograd.grad(outputs, values, weights, allow_unused=True)
    for gradient in found:
        yield gradient is None or not gradient.count_nonzero()


def _worst(call: _Call) -> tuple[str, tuple[int, ...], float, float] | None:
    """Return the input element whose two derivatives differ most.

    The derivatives are those of one fixed weighted sum of all outputs.
    """
    values = tuple(call.inputs.values())
    outputs = call(*values)
    weights = [
        torch.linspace(0.5, 1.5, o.numel(), dtype=torch.float64).view(o.shape) for o in outputs
    ]

    def total(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack(
            [(w * _real(o)).sum() for w, o in zip(weights, call(*inputs), strict=True)]
        ).sum()

    root = total(*values)
    gradients: tuple[torch.Tensor | None, ...] = (None,) * len(values)
    if root.requires_grad:
        gradients = torch.autograd.grad(root, values, allow_unused=True)
    worst: tuple[str, tuple[int, ...], float, float] | None = None
    for position, (name, value) in enumerate(call.inputs.items()):
        if value.is_complex():
            continue
        for flat in range(min(value.numel(), MAX_ELEMENTS)):
            numerical = _difference(total, values, position, flat)
            gradient = gradients[position]
            analytical = 0.0 if gradient is None else float(gradient.reshape(-1)[flat])
            if worst is None or abs(analytical - numerical) > abs(worst[2] - worst[3]):
                worst = name, _index(flat, tuple(value.shape)), analytical, numerical
    return worst


def _real(output: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(output).sum(-1) if output.is_complex() else output


def _difference(
    total: Callable[..., torch.Tensor], values: tuple[torch.Tensor, ...], position: int, flat: int
) -> float:
    ends = []
    for step in (_EPS, -_EPS):
        moved = [value.detach().clone() for value in values]
        moved[position].view(-1)[flat] += step
        for value in moved:
            value.requires_grad_()
        ends.append(float(total(*moved)))
    return (ends[0] - ends[1]) / (2 * _EPS)


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))
