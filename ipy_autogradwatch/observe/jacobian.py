"""The entry of a call's Jacobian at which backward and finite differences differ most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

MAX_ELEMENTS = 2_000
"""Of one input, when the worst element is looked for; of the result likewise."""
STEP = 1e-6

Tensors = tuple[torch.Tensor, ...]


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


def find_worst(inputs: dict[str, torch.Tensor], function: Callable[..., Tensors]) -> WorstElement:
    """Return the entry at which the two derivatives of *function* differ most.

    The element of the input is the one that is worst for a fixed weighted sum of the whole
    result; the element of the result is then the worst for that one.
    """
    values = tuple(inputs.values())
    outputs = function(*values)
    flat = flatten(outputs)
    weights = torch.linspace(0.5, 1.5, flat.numel(), dtype=flat.dtype, device=flat.device)
    most, position, element = -1.0, 0, 0
    for p, gradient in enumerate(flat_gradients(flat @ weights, values)):
        for e in range(min(gradient.numel(), MAX_ELEMENTS)):
            left, right = _slopes(function, values, p, e)
            error = abs(float((left + right) @ weights / 2) - float(gradient[e]))
            if error > most:
                most, position, element = error, p, e
    left, right = _slopes(function, values, position, element)
    analytical = torch.zeros_like(left)
    for index in range(min(flat.numel(), MAX_ELEMENTS)):
        analytical[index] = flat_gradients(flat[index], values)[position][element]
    errors = ((left + right) / 2 - analytical)[:MAX_ELEMENTS]
    worst = int(errors.abs().argmax())
    return WorstElement(
        place=_place({list(inputs)[position]: values[position]}, element),
        output="" if flat.numel() == 1 else _place(_named(outputs), worst),
        analytical=float(analytical[worst]),
        numerical=float((left + right)[worst] / 2),
        left=float(left[worst]),
        right=float(right[worst]),
    )


def _slopes(
    function: Callable[..., Tensors], values: Tensors, position: int, element: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the slopes of the whole result to the left and to the right of one element."""
    ends = []
    for step in (-STEP, 0.0, STEP):
        moved = [value.detach().clone() for value in values]
        real(moved[position]).view(-1)[element] += step
        ends.append(flatten(function(*(value.requires_grad_() for value in moved))).detach())
    return (ends[1] - ends[0]) / STEP, (ends[2] - ends[1]) / STEP


def flat_gradients(root: torch.Tensor, values: Tensors) -> list[torch.Tensor]:
    """Return the gradient of *root* for each of *values*, flat and real; zeros for none."""
    found: list[torch.Tensor | None] = [None] * len(values)
    if root.requires_grad:
        found = [*torch.autograd.grad(root, values, allow_unused=True, retain_graph=True)]
    return [
        real(torch.zeros_like(v) if g is None else g.detach()).reshape(-1)
        for g, v in zip(found, values, strict=True)
    ]


def flatten(tensors: Tensors) -> torch.Tensor:
    """Return all *tensors* in one real vector."""
    return torch.cat([real(tensor).reshape(-1) for tensor in tensors])


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Return *tensor*, a complex one with its two parts in a last dimension."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _named(outputs: Tensors) -> dict[str, torch.Tensor]:
    if len(outputs) == 1:
        return {"result": outputs[0]}
    return {f"result[{index}]": output for index, output in enumerate(outputs)}


def _place(tensors: dict[str, torch.Tensor], flat: int) -> str:
    """Return what the element at *flat*, of all *tensors* laid end to end, is called."""
    for name, tensor in tensors.items():
        size = real(tensor).numel()
        if flat < size:
            part, shape = "", tuple(tensor.shape)
            if tensor.is_complex():
                part, flat = (".real", ".imag")[flat % 2], flat // 2
            index = [int(i) for i in torch.unravel_index(torch.tensor(flat), shape)]
            # An empty index is that of a scalar.
            return name + (f"[{', '.join(map(str, index))}]" if index else "") + part
        flat -= size
    raise IndexError(flat)
