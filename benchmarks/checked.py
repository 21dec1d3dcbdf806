"""What ``%%gradcheck`` costs for each backward that it settles, as a multiple of the plain step."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.prove.check import CellCheck, Options

MANY = 10**6
"""Backwards: all that there are."""


def steps() -> dict[str, tuple[Callable[[], None], int]]:
    """Return a training step of each network by name, and how often to run it."""
    networks = {
        "MLP 64-128-128-10, batch 64": (
            nn.Sequential(
                nn.Linear(64, 128),
                nn.ReLU(),
                nn.Linear(128, 128),
                nn.ReLU(),
                nn.Linear(128, 10),
            ),
            torch.randn(64, 64),
            100,
        ),
        "small conv net, batch 16": (
            nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(4),
                nn.Flatten(),
                nn.Linear(512, 10),
            ),
            torch.randn(16, 3, 32, 32),
            8,
        ),
        "transformer, 4 layers, 256 wide": (
            nn.Sequential(
                nn.TransformerEncoder(
                    nn.TransformerEncoderLayer(256, 4, 512, batch_first=True),
                    4,
                    enable_nested_tensor=False,
                ),
                nn.Flatten(),
                nn.Linear(256 * 16, 10),
            ),
            torch.randn(8, 16, 256),
            4,
        ),
    }

    def step_of(net: nn.Module, x: torch.Tensor) -> Callable[[], None]:
        labels = torch.randint(10, (x.shape[0],))

        def step() -> None:
            net.zero_grad()
            nn.functional.cross_entropy(net(x), labels).backward()

        return step

    return {name: (step_of(net, x), count) for name, (net, x, count) in networks.items()}


def seconds(step: Callable[[], None], count: int, options: Options | None) -> float:
    """Return the time of *count* steps, recorded and settled with *options*."""
    fence = Fence()
    check = None if options is None else CellCheck(options, lambda name: None, fence)
    if check is not None:
        check.begin()
    try:
        start = time.process_time()
        for _ in range(count):
            step()
        took = time.process_time() - start
    finally:
        if check is not None:
            check.end()
    assert not fence.history, fence.history[0].traceback
    return took


def checked(step: Callable[[], None], count: int, options: Options, rounds: int) -> list[float]:
    """Return the ratio of checked to plain steps, one for each round."""
    seconds(step, count, None)
    seconds(step, 1, options)
    return [
        seconds(step, count, options) / seconds(step, count, None) for _ in range(max(3, rounds))
    ]


WITH_NUMBERS = Options(backwards=MANY)
WITHOUT_NUMBERS = Options(backwards=MANY, directions=0)
