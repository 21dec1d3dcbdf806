"""The derivative along one direction, by the difference of two replays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ipy_autogradwatch.prove.comparing import Gradients, Question, dense_of, root_value
from ipy_autogradwatch.prove.replaying import Joining, Replay, variables
from ipy_autogradwatch.prove.tape import Load

STEP = 1e-7
"""Small: a network has a kink for each ReLU, and few are to be met."""


@dataclass(frozen=True, slots=True)
class Slopes:
    """The derivative along one direction.

    Attributes:
        reverse: By reverse mode over the replay.
        left, right: By one-sided differences.
        central: By central differences.
        noise: How far the differences may be off by rounding.
    """

    reverse: float
    central: float
    left: float
    right: float
    noise: float

    @property
    def agree(self) -> bool:
        """Whether reverse mode and central differences give the same."""
        return _close(self.reverse, self.central, self.noise)

    @property
    def is_kink(self) -> bool:
        """Whether the one-sided differences differ from each other."""
        return not _close(self.left, self.right, 100 * self.noise)


def _close(a: float, b: float, noise: float) -> bool:
    return abs(a - b) <= 1e-3 * max(abs(a), abs(b)) + noise


def slopes(
    question: Question,
    gradients: Gradients,
    seed: int,
    *,
    step: float = STEP,
    only: Sequence[Load] | None = None,
) -> Slopes:
    """Compare reverse mode over the joined replay with differences of it.

    Args:
        question: The backward.
        gradients: Of the replay with every cut joined.
        seed: Of the direction.
        step: How far each element moves, on average.
        only: Move these leaves, instead of all.
    """
    loads = question.leaf_loads() if only is None else only
    base = {
        key: value.detach()
        for key, value in variables(question.leaf_loads(), raised=question.raised).items()
    }
    directions = _directions(loads, base, gradients, seed)
    reverse, elements = 0.0, 0
    for key, direction in directions.items():
        elements += direction.numel()
        found = gradients.by_load.get(key)
        if found is not None:
            reverse += float((dense_of(found).conj() * direction).sum().real)
    length = step * max(1.0, elements**0.5)
    ends = []
    for sign in (length, -length):
        moved = {
            key: torch.add(value, directions[key], alpha=sign) if key in directions else value
            for key, value in base.items()
        }
        replay = Replay(
            question.tape, question.entries, moved, joining=Joining.ALL, raised=question.raised
        )
        with torch.no_grad():
            ends.append(float(root_value(question, replay.run())))
    middle = float(gradients.output)
    size = max(abs(middle), abs(ends[0]), abs(ends[1]))
    return Slopes(
        reverse=reverse,
        central=(ends[0] - ends[1]) / (2 * length),
        left=(middle - ends[1]) / length,
        right=(ends[0] - middle) / length,
        noise=(1e-13 * (1 + size)) / length + 1e-9,
    )


def _directions(
    loads: Sequence[Load], base: Mapping[int, torch.Tensor], gradients: Gradients, seed: int
) -> dict[int, torch.Tensor]:
    """Return a direction of length 1, by load: half random, half along the gradient.

    Along a direction that is random alone the slope is a small rest of large parts, and one
    ReLU that switches over is more than that.
    """
    wanted = [id(load) for load in loads]
    random: dict[int, torch.Tensor] = {}
    for key in wanted:
        value = base[key]
        random[key] = _noise(tuple(value.shape), value.dtype, seed).to(value.device)
    along = {key: g for key in wanted if (g := gradients.by_load.get(key)) is not None}
    size = sum(float(r.abs().square().sum()) for r in random.values()) ** 0.5 or 1.0
    steep = sum(float(dense_of(g).norm()) ** 2 for g in along.values()) ** 0.5
    result = {key: value / size for key, value in random.items()}
    for key, gradient in along.items():
        if steep > 0:
            result[key] = result[key] + dense_of(gradient) / steep
    norm = sum(float(r.abs().square().sum()) for r in result.values()) ** 0.5 or 1.0
    return {key: value / norm for key, value in result.items()}


@functools.lru_cache(maxsize=64)
def _noise(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
