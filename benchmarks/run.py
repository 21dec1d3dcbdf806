"""What the watch costs: a table of ratios and times, each beside its budget.

    python benchmarks/run.py                             prints the table
    python benchmarks/run.py --write docs/performance.md writes the page

Ratios compare the processor time of the same cell in a watched and in a plain shell of one
process, in turns, so that a change of the machine's speed hits both. Quoted are the median
and the quartiles.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("IPYTHONDIR", tempfile.mkdtemp())
os.environ.setdefault("OMP_NUM_THREADS", "1")

import IPython
import torch
from checked import WITH_NUMBERS, WITHOUT_NUMBERS, checked, steps
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from ipy_autogradwatch import load_ipython_extension

PAGE = """\
# Performance

What the watch costs, measured by `make bench` ({versions}).

A ratio compares the processor time of a cell with that of the same cell in an unwatched shell, in turns in one process: its median, and the first and third quartile.
A time is the median of several runs, and its quartiles.
A training cell runs 600 steps; the looks at its first steps cost one to two milliseconds, once a cell.
The floor is what must be done at least, for comparison.

{table}

Outside of `%%gradcheck`, nothing is done per torch operation: a probe runs only where the source has a `.data`, a `backward` or a call that makes a leaf.
The first few hits of a site are looked at, then every hit whose count is a power of two; the others are counted.
A search through the namespace ends after 15 ms or 2,000 tensors, and the walks through graphs after 10 ms while the cell runs and 10 ms at its end; the report says when something was cut.
"""


@dataclass(frozen=True)
class Measure:
    """One row: what was measured, against which budget, and what came out."""

    what: str
    budget: float
    unit: str
    values: list[float]
    floor: str

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def row(self) -> str:
        low, _, high = statistics.quantiles(self.values, n=4)
        kept = "yes" if self.median <= self.budget else "**no**"
        return (
            f"| {self.what} | {self.median:.3g} {self.unit} ({low:.3g} to {high:.3g}) "
            f"| {self.budget:g} {self.unit} | {kept} | {self.floor} |"
        )


def shell(*, watched: bool) -> InteractiveShell:
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell(config=config)
    if watched:
        load_ipython_extension(made)
        made.run_line_magic("autogradwatch", "report off")
    return made


def run(made: InteractiveShell, cell: str) -> None:
    made.run_cell(cell, store_history=True).raise_error()


def ratios(setup: str, work: str, *, rounds: int) -> list[float]:
    """Time the cell *work*, which leaves its seconds in ``seconds``, watched and plain."""
    pair = [shell(watched=False), shell(watched=True)]
    for made in pair:
        run(made, setup)
        run(made, work)
    found = []
    for turn in range(rounds):
        took = {}
        for index in (0, 1) if turn % 2 else (1, 0):
            run(pair[index], work)
            took[index] = pair[index].user_ns["seconds"]
        found.append(took[1] / took[0])
    return found


MLP = """
import torch, time
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(64, {width}), torch.randn(64, 1)
"""
STEPS = """
start = time.process_time()
for _ in range(600):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    seen = loss.data
seconds = time.process_time() - start
"""
LOOP = """
import time
def work(n):
    s = 0
    for i in range(n):
        s += i
    return s
start = time.process_time()
work(10_000_000)
seconds = time.process_time() - start
"""
CALL_LOOP = """
import time
start = time.process_time()
for i in range(1_000_000):
    abs(i)
seconds = time.process_time() - start
"""
READS = """
start = time.process_time()
for _ in range(100_000):
    w.data
seconds = time.process_time() - start
"""


def per_read(rounds: int) -> list[float]:
    """Return what a watched ``.data`` in an inner loop costs more, in microseconds."""
    pair = [shell(watched=False), shell(watched=True)]
    for made in pair:
        run(made, "import torch, time\nw = torch.ones(3, requires_grad=True)")
    found = []
    for _ in range(rounds):
        for made in pair:
            run(made, READS)
        plain, watched = (made.user_ns["seconds"] for made in pair)
        found.append((watched - plain) / 100_000 * 1e6)
    return found


RESNET = """
import torch
from torch import nn
class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
    def forward(self, x):
        x = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()
        return self.bn3(self.conv3(x))
net = nn.Sequential(*[Bottleneck() for _ in range(16)])
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(2, 8, 4, 4)
loss = net(x).mean()
loss.backward()
opt.step()
"""


def hooks(setup: str, cell: str, rounds: int, *, both: bool) -> list[float]:
    """Time what is done after a cell, or before and after it, in milliseconds."""
    made = shell(watched=True)
    run(made, setup)
    extension = made._ipy_autogradwatch
    spent = [0.0]

    def timed(callback: Callable[[object], None]) -> Callable[[object], None]:
        def call(argument: object) -> None:
            start = time.perf_counter()
            callback(argument)
            spent[0] += time.perf_counter() - start

        return call

    for event, name in (("pre_run_cell", "_before"), ("post_run_cell", "_after")):
        callbacks = made.events.callbacks[event]
        own = [c for c in callbacks if getattr(c, "__self__", None) is extension]
        if both or event == "post_run_cell":
            made.events.callbacks[event] = [timed(c) if c in own else c for c in callbacks]
        assert own, name
    run(made, cell)
    found = []
    for _ in range(rounds):
        spent[0] = 0.0
        run(made, cell)
        found.append(spent[0] * 1e3)
    return found


def loads(rounds: int) -> list[float]:
    """Time loading in a fresh process that has IPython and not torch, in milliseconds."""
    code = (
        "import time, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\n"
        "start = time.perf_counter()\n"
        "shell.run_line_magic('load_ext', 'ipy_autogradwatch')\n"
        "print((time.perf_counter() - start) * 1e3)\n"
        "assert 'torch' not in sys.modules\n"
    )
    return [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(rounds)
    ]


GRAPH = """
import torch
y = torch.ones(1, requires_grad=True)
for _ in range(1_000_000):
    y = y + 1
"""
TENSORS = "import torch\nmany = [torch.ones(1) for _ in range(100_000)]"


def measures(rounds: int) -> list[Measure]:
    """Measure everything; about two minutes."""
    torch.set_num_threads(1)
    probe_floor = "two calls of an empty function: about 0.1 µs"
    return [
        Measure(
            "training step, MLP 16 wide, one `.data` read",
            1.05,
            "x",
            ratios(MLP.format(width=16), STEPS, rounds=2 * rounds),
            "3 probes a step",
        ),
        Measure(
            "training step, MLP 128 wide, one `.data` read",
            1.02,
            "x",
            ratios(MLP.format(width=128), STEPS, rounds=2 * rounds),
            "3 probes a step",
        ),
        Measure(
            "pure-Python loop of 10 million",
            1.01,
            "x",
            ratios("", LOOP, rounds=max(5, rounds // 2)),
            "no probe: 1",
        ),
        Measure(
            "loop with one trivial call",
            1.10,
            "x",
            ratios("", CALL_LOOP, rounds=rounds),
            "no probe: 1",
        ),
        Measure("one more `.data` read in a loop", 0.5, "µs", per_read(rounds), probe_floor),
        Measure(
            "end of a cell, ResNet-50-sized namespace",
            5,
            "ms",
            hooks(RESNET, "pass", rounds, both=False),
            "one dict look-up a tensor: 0.1 ms",
        ),
        Measure(
            "before and after a cell, 100,000 tensors",
            50,
            "ms",
            hooks(TENSORS, "pass", rounds, both=True),
            "cut after 2,000 tensors",
        ),
        Measure(
            "before and after a cell, graph of 1,000,000 nodes",
            50,
            "ms",
            hooks(GRAPH, "z = y * 1", rounds, both=True),
            "cut after 10 ms",
        ),
        Measure(
            "`%load_ext` without torch",
            50,
            "ms",
            loads(max(5, rounds // 2)),
            "importing our modules: about 15 ms",
        ),
        *checks(rounds // 3),
    ]


def checks(rounds: int) -> list[Measure]:
    """Measure what `%%gradcheck` costs for each backward that it settles."""
    budgets = (10, 8, 8)
    found = []
    for budget, (name, (step, count)) in zip(budgets, steps().items(), strict=True):
        for what, limit, options, floor in (
            ("", budget, WITH_NUMBERS, "3 runs in double precision, 1 backward"),
            (" --no-numeric", 5, WITHOUT_NUMBERS, "1 run in double precision, 1 backward"),
        ):
            ratio = checked(step, count, options, rounds)
            found.append(Measure(f"`%%gradcheck{what}`, {name}", limit, "x", ratio, floor))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows = [measure.row() for measure in measures(options.rounds)]
    table = "\n".join(
        ["| what | measured | budget | kept | floor |", "|---|---|---|---|---|", *rows]
    )
    print(table)
    if options.write is not None:
        versions = (
            f"Python {platform.python_version()}, torch {torch.__version__.partition('+')[0]} "
            f"on a CPU, IPython {IPython.__version__}"
        )
        options.write.write_text(PAGE.format(versions=versions, table=table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
