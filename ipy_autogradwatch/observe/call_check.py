"""``torch.autograd.gradcheck`` on one call, with an answer in the user's names."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from ipy_autogradwatch.fence import attempt

MAX_ELEMENTS = 2_000
"""Of one input, when the worst element is looked for; of the output likewise."""
MAX_JACOBIAN = 200_000
"""Entries; a larger one is checked along random directions."""
_EPS = 1e-6
_ATOL, _RTOL = 1e-5, 1e-3
_DOUBLES = (torch.float64, torch.complex128)

_Tensors = tuple[torch.Tensor, ...]


class NothingToCheck(ValueError):
    """Raised when a call has no tensor that could have a gradient."""


def is_tensor(value: object) -> bool:
    """Whether *value* is a tensor, as PyTorch itself would say."""
    return isinstance(value, torch.Tensor)


@dataclass(frozen=True, slots=True)
class WorstElement:
    """One entry of the Jacobian, by backward and by finite differences.

    Attributes:
        place: The element of an input, as ``w[1, 2]``.
        output: The element of the result, or an empty string if it has only one.
        analytical, numerical: The derivative, by backward and by central differences.
        left, right: The one-sided differences, which differ where there is a kink.
    """

    place: str
    output: str
    analytical: float
    numerical: float
    left: float
    right: float

    @property
    def is_kink(self) -> bool:
        """Whether the function has no derivative there: one slope before, one after."""
        apart = abs(self.left - self.right)
        return apart > 1e-3 * max(1.0, abs(self.left), abs(self.right))


@dataclass(frozen=True, slots=True)
class CallCheck:
    """What came out of checking one call.

    Attributes:
        verdict: ``right``, ``wrong``, ``vacuous`` or ``undecided``.
        detail: One line that says why.
        worst: Where the two derivatives differ most, if they do.
        remarks: What was done to the call: promoted inputs, fixed random numbers.
    """

    verdict: str
    detail: str
    worst: WorstElement | None = None
    remarks: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        yield f"{self.verdict}: {self.detail}"
        if self.worst is not None:
            worst = self.worst
            of = f"d {worst.output} / d {worst.place}" if worst.output else worst.place
            yield f"  worst at {of}:"
            yield f"    backward            {worst.analytical: .6g}"
            yield f"    finite differences  {worst.numerical: .6g}"
        for remark in self.remarks:
            yield f"  ({remark})"


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
    __tracebackhide__ = True
    remarks: list[str] = []
    inputs = _inputs(dict(zip(names, arguments, strict=True)) | keywords, remarks)
    call = _Call(_in_double(function, remarks), arguments, keywords, names, inputs)
    with _generators_kept():
        outputs = attempt(lambda: call(*call.values), None)
        if outputs is None:
            # In the user's own precision: if that fails as well, the error is theirs.
            function(*map(_copied, arguments), **{n: _copied(v) for n, v in keywords.items()})
            return CallCheck(
                "undecided",
                "the function works, but not on float64; pass the float32 tensors that it uses "
                "as arguments, or make them double",
                remarks=tuple(remarks),
            )
        verdict = _check(call, outputs, remarks)
    return CallCheck(verdict.verdict, verdict.detail, verdict.worst, tuple(remarks))


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
        self.values = tuple(inputs.values())
        self._function = function
        self._arguments = tuple(_promoted(value) for value in arguments)
        self._keywords = {name: _promoted(value) for name, value in keywords.items()}
        self._names = names
        self.seed: int | None = None

    def __call__(self, *values: torch.Tensor) -> _Tensors:
        """Return the differentiable outputs, with *values* in place of the inputs."""
        __tracebackhide__ = True
        if self.seed is not None:
            torch.manual_seed(self.seed)
        given = dict(zip(self.inputs, values, strict=True))
        arguments = [given.get(n, v) for n, v in zip(self._names, self._arguments, strict=True)]
        keywords = {name: given.get(name, value) for name, value in self._keywords.items()}
        result = self._function(*arguments, **keywords)
        listed = result if isinstance(result, (tuple, list)) else (result,)
        return tuple(item for item in listed if _could_have_grad(item))

    def flat(self, *values: torch.Tensor) -> torch.Tensor:
        """Return all outputs in one real vector."""
        return torch.cat([_real(output).reshape(-1) for output in self(*values)])


def _inputs(named: dict[str, Any], remarks: list[str]) -> dict[str, torch.Tensor]:
    able = {name: value for name, value in named.items() if _could_have_grad(value)}
    if not able:
        raise NothingToCheck("no argument is a tensor of floating-point numbers")
    asked = {name: value for name, value in able.items() if value.requires_grad}
    checked = asked or able
    if not asked:
        remarks.append("no argument requires grad: all are checked")
    lower = [name for name, value in checked.items() if value.dtype not in _DOUBLES]
    if lower:
        remarks.append(f"{', '.join(lower)} checked in double precision")
    return {name: _promoted(value).requires_grad_() for name, value in checked.items()}


def _could_have_grad(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and (value.is_floating_point() or value.is_complex())
    )


def _in_double(function: Callable[..., Any], remarks: list[str]) -> Callable[..., Any]:
    owner = getattr(function, "__self__", None)
    module = function if isinstance(function, torch.nn.Module) else owner
    if not isinstance(module, torch.nn.Module):
        return function
    remarks.append("the module is a copy in double precision")
    copied = copy.deepcopy(module).double()
    return copied if module is function else getattr(copied, function.__name__)


def _promoted(value: Any) -> Any:
    if not _could_have_grad(value):
        return value
    dtype = torch.complex128 if value.is_complex() else torch.float64
    return value.detach().to(dtype).clone(memory_format=torch.contiguous_format)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


@contextmanager
def _generators_kept() -> Iterator[None]:
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    python_state, numpy_state = random.getstate(), numpy and numpy.get_state()
    try:
        with torch.random.fork_rng(), torch.enable_grad():
            yield
    finally:
        random.setstate(python_state)
        if numpy is not None:
            numpy.set_state(numpy_state)


def _check(call: _Call, outputs: _Tensors, remarks: list[str]) -> CallCheck:
    if not outputs:
        return CallCheck("vacuous", "the result is no tensor of floating-point numbers")
    if not all(output.isfinite().all() for output in outputs):
        return CallCheck("undecided", "the result contains NaN or Inf")
    if not _same(outputs, call(*call.values)):
        call.seed = torch.initial_seed() % 2**31
        if not _same(call(*call.values), call(*call.values)):
            return CallCheck("undecided", "two calls on the same inputs give different results")
        remarks.append("it draws random numbers: the same ones in every call of this check")
    if not any(output.requires_grad for output in outputs):
        return _disconnected(call)
    size = sum(i.numel() for i in call.values) * sum(o.numel() for o in outputs)
    if size > MAX_JACOBIAN:
        remarks.append("checked along random directions, because it is large")
    try:
        torch.autograd.gradcheck(
            call, call.values, eps=_EPS, atol=_ATOL, rtol=_RTOL, fast_mode=size > MAX_JACOBIAN
        )
    except GradcheckError as error:
        return _explain(call, str(error))
    return _agreement(call)


def _same(first: _Tensors, second: _Tensors) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def _agreement(call: _Call) -> CallCheck:
    flat = call.flat(*call.values)
    gradients = _gradients(flat @ (torch.rand_like(flat) + 0.5), call.values)
    moving = [n for n, g in zip(call.inputs, gradients, strict=True) if g.count_nonzero()]
    still = [name for name in call.inputs if name not in moving]
    if not moving:
        detail = (
            "every derivative is zero, by backward and by finite differences: it proves nothing"
        )
        return CallCheck("vacuous", detail)
    detail = f"backward agrees with finite differences for {', '.join(moving)}"
    if still:
        detail += f" (all zero for {', '.join(still)})"
    return CallCheck("right", detail)


def _disconnected(call: _Call) -> CallCheck:
    """The outputs require no grad: because they are constant, or because of a cut?"""
    worst = _find_worst(call)
    if worst.numerical == 0:
        detail = "the result has no graph, and does not change with the inputs: it proves nothing"
        return CallCheck("vacuous", detail)
    detail = "the result changes with the inputs, but has no graph: something cut it"
    return CallCheck("wrong", detail, worst)


def _explain(call: _Call, message: str) -> CallCheck:
    if "reentrant" in message or "not deterministic" in message.lower():
        detail = "backward gives different gradients when it runs twice on the same inputs"
        return CallCheck("undecided", detail)
    worst = _find_worst(call)
    if worst.is_kink:
        detail = (
            f"there is a kink at {worst.place}: the slope is {worst.left:.4g} before it and "
            f"{worst.right:.4g} after it, and backward says {worst.analytical:.4g}"
        )
        return CallCheck("undecided", detail)
    name = worst.place.partition("[")[0]
    return CallCheck("wrong", f"backward disagrees with finite differences for {name}", worst)


def _find_worst(call: _Call) -> WorstElement:
    """Return the entry of the Jacobian at which the two derivatives differ most.

    The element of the input is the one that is worst for a fixed weighted sum of all
    outputs; the element of the output is the worst for that one.
    """
    flat = call.flat(*call.values)
    weights = torch.linspace(0.5, 1.5, flat.numel(), dtype=flat.dtype, device=flat.device)
    gradients = _gradients(flat @ weights, call.values)
    most, position, element = -1.0, 0, 0
    for p, gradient in enumerate(gradients):
        for e in range(min(gradient.numel(), MAX_ELEMENTS)):
            left, right = _slopes(call, p, e)
            error = abs(float((left + right) @ weights / 2) - float(gradient[e]))
            if error > most:
                most, position, element = error, p, e
    return _worst_output(call, flat, position, element)


def _worst_output(call: _Call, flat: torch.Tensor, position: int, element: int) -> WorstElement:
    left, right = _slopes(call, position, element)
    analytical = torch.zeros_like(left)
    for index in range(min(flat.numel(), MAX_ELEMENTS)):
        analytical[index] = _gradients(flat[index], call.values)[position][element]
    numerical = (left + right) / 2
    worst = int((numerical - analytical)[:MAX_ELEMENTS].abs().argmax())
    outputs = {f"result[{i}]": output for i, output in enumerate(call(*call.values))}
    if len(outputs) == 1:
        outputs = {"result": outputs["result[0]"]}
    return WorstElement(
        place=_place({list(call.inputs)[position]: call.values[position]}, element),
        output="" if flat.numel() == 1 else _place(outputs, worst),
        analytical=float(analytical[worst]),
        numerical=float(numerical[worst]),
        left=float(left[worst]),
        right=float(right[worst]),
    )


def _gradients(root: torch.Tensor, values: _Tensors) -> list[torch.Tensor]:
    """Return the gradient of *root* for each of *values*, flat and real; zeros for none."""
    found: list[torch.Tensor | None] = [None] * len(values)
    if root.requires_grad:
        found = [*torch.autograd.grad(root, values, allow_unused=True, retain_graph=True)]
    return [
        _real(torch.zeros_like(v) if g is None else g.detach()).reshape(-1)
        for g, v in zip(found, values, strict=True)
    ]


def _slopes(call: _Call, position: int, element: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the differences of all outputs to the left and to the right of one element."""
    ends = []
    for step in (-_EPS, 0.0, _EPS):
        moved = [value.detach().clone() for value in call.values]
        _real(moved[position]).view(-1)[element] += step
        ends.append(call.flat(*(value.requires_grad_() for value in moved)).detach())
    return (ends[1] - ends[0]) / _EPS, (ends[2] - ends[1]) / _EPS


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _place(tensors: dict[str, torch.Tensor], flat: int) -> str:
    """Return what the element at *flat*, of all *tensors* laid end to end, is called."""
    for name, tensor in tensors.items():
        size = _real(tensor).numel()
        if flat < size:
            part, shape = "", tuple(tensor.shape)
            if tensor.is_complex():
                part, flat = (".real", ".imag")[flat % 2], flat // 2
            index = [int(i) for i in torch.unravel_index(torch.tensor(flat), shape)]
            # An empty index is that of a scalar.
            return name + (f"[{', '.join(map(str, index))}]" if index else "") + part
        flat -= size
    raise IndexError(flat)
