"""Random operations in a replay: the numbers that were drawn, with the gradient they have."""

from __future__ import annotations

from typing import Any

import torch

from ipy_autogradwatch.prove.aten import known_facts
from ipy_autogradwatch.prove.contents import Contents
from ipy_autogradwatch.prove.tape import Op

RRELU = "aten::rrelu_with_noise"
IMPLICIT = ("aten::_standard_gamma", "aten::_sample_dirichlet")
"""Draws whose gradient is that of a formula: differences of fixed draws say nothing of it."""


def drawn(op: Op, first: torch.Tensor, contents: Contents) -> tuple[Any, ...]:
    """Return the results of *op* that were recorded.

    Args:
        op: A random operation.
        first: Its first input, with its graph.
        contents: For the precision.
    """
    assert op.constant is not None
    values = tuple(
        contents.raise_(value) if isinstance(value, torch.Tensor) else value
        for value in op.constant
    )
    name = known_facts(op.function).name
    if name == "aten::native_dropout":
        return first * values[1].to(first.dtype) / (1 - op.arguments[1]), values[1]
    if name == "aten::_standard_gamma":
        slope = torch._standard_gamma_grad(first.detach(), values[0])
        return (values[0] + (first - first.detach()) * slope,)
    if name == "aten::_sample_dirichlet":
        return (_dirichlet(first, values[0]),)
    if name == RRELU:
        return (first * values[1],)
    return values


def _dirichlet(concentration: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Return *drawn*, with the implicit gradient that PyTorch gives it."""
    total = concentration.detach().sum(-1, keepdim=True).expand_as(drawn)
    slope = torch._dirichlet_grad(drawn, concentration.detach(), total)
    moved = slope * (concentration - concentration.detach())
    return drawn + moved - drawn * moved.sum(-1, keepdim=True)
