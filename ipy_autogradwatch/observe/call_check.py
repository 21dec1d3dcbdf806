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
from ipy_autogradwatch.observe.jacobian import (
    STEP,
    Tensors,
    WorstElement,
    find_worst,
    flat_gradients,
    flatten,
)

MAX_JACOBIAN = 200_000
"""Entries; a larger one is checked along random directions."""
_ATOL, _RTOL = 1e-5, 1e-3
_DOUBLES = (torch.float64, torch.complex128)


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

    def __call__(self, *values: torch.Tensor) -> Tensors:
        """Return the differentiable outputs, with *values* in place of the inputs."""
        __tracebackhide__ = True
        if self.seed is not None:
            torch.manual_seed(self.seed)
        # Fresh ones each time: the function may write into them.
        given = {n: value.clone() for n, value in zip(self.inputs, values, strict=True)}
        named = zip(self._names, self._arguments, strict=True)
        arguments = [given[name] if name in given else _copied(value) for name, value in named]
        keywords = {
            name: given[name] if name in given else _copied(value)
            for name, value in self._keywords.items()
        }
        result = self._function(*arguments, **keywords)
        listed = result if isinstance(result, (tuple, list)) else (result,)
        return tuple(item for item in listed if _could_have_grad(item))


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
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad).clone()


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


def _check(call: _Call, outputs: Tensors, remarks: list[str]) -> CallCheck:
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
            call, call.values, eps=STEP, atol=_ATOL, rtol=_RTOL, fast_mode=size > MAX_JACOBIAN
        )
    except GradcheckError as error:
        return _explain(call, str(error))
    return _agreement(call)


def _same(first: Tensors, second: Tensors) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def _agreement(call: _Call) -> CallCheck:
    flat = flatten(call(*call.values))
    gradients = flat_gradients(flat @ (torch.rand_like(flat) + 0.5), call.values)
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
    worst = find_worst(call.inputs, call)
    if worst.numerical == 0:
        detail = "the result has no graph, and does not change with the inputs: it proves nothing"
        return CallCheck("vacuous", detail)
    detail = "the result changes with the inputs, but has no graph: something cut it"
    return CallCheck("wrong", detail, worst)


def _explain(call: _Call, message: str) -> CallCheck:
    if "reentrant" in message or "not deterministic" in message.lower():
        detail = "backward gives different gradients when it runs twice on the same inputs"
        return CallCheck("undecided", detail)
    worst = find_worst(call.inputs, call)
    if worst.is_kink:
        detail = (
            f"there is a kink at {worst.place}: the slope is {worst.left:.4g} before it and "
            f"{worst.right:.4g} after it, and backward says {worst.analytical:.4g}"
        )
        return CallCheck("undecided", detail)
    name = worst.place.partition("[")[0]
    return CallCheck("wrong", f"backward disagrees with finite differences for {name}", worst)
