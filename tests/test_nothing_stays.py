"""Nothing of a cell lives longer because it was watched, and reports hold plain values only."""

from __future__ import annotations

import gc
import json
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

import pytest
import torch
from support import run

from ipy_autogradwatch.model import CellReport
from ipy_autogradwatch.notebook import sources
from ipy_autogradwatch.observe import history, writes
from ipy_autogradwatch.rules import _source

START = "import torch, gc, weakref\nfrom torch import nn\nw = torch.ones(3, requires_grad=True)"


@pytest.fixture
def started(watcher):
    run(watcher.shell, START)
    return watcher.shell


def collect(shell):
    """Collect as a cell would: IPython itself keeps the last result."""
    run(shell, "gc.collect(); None")


MADE = {
    "tensor": ("t = torch.ones(5)", "t"),
    "result": ("t = (w * 2).sum()", "t"),
    "leaf": ("t = torch.ones(3, requires_grad=True); t.sum().backward()", "t"),
    "gradient": ("w.sum().backward(); t = w.grad; w.grad = None", "t"),
    "module": ("t = nn.Linear(2, 2); t(torch.ones(2)).sum().backward()", "t"),
    "optimizer": ("t = torch.optim.Adam([w]); w.sum().backward(); t.step()", "t"),
    "list": ("class L(list): pass\nt = L([torch.ones(2)])", "t"),
    "object": ("class O: pass\nt = O(); t.w = torch.ones(2)", "t"),
    "alias": ("t = w.data; t.add_(1); None", "t"),
    "read through .data": ("t = torch.ones(5); print(t.data)", "t"),
    "written through .data": ("t = torch.ones(5); d = t.data; d.add_(1); del d", "t"),
    "assigned to .data": ("t = torch.ones(5); t.data = torch.ones(2)", "t"),
    "root": ("t = (w * w).sum(); t.backward(retain_graph=True)", "t"),
    "argument of grad": ("t = (w * w).sum(); torch.autograd.grad(t, w, retain_graph=True)", "t"),
}


@pytest.mark.parametrize("which", MADE)
@pytest.mark.parametrize("gradcheck", [False, True])
def test_what_a_cell_made_dies_when_the_user_lets_go(started, which, gradcheck, capsys):
    cell, name = MADE[which]
    run(started, ("%%gradcheck\n" if gradcheck else "") + cell, "r = weakref.ref(t)", f"del {name}")
    collect(started)
    assert started.user_ns["r"]() is None


@pytest.mark.parametrize("which", MADE)
def test_a_finished_cell_holds_nothing_not_even_until_the_next(started, which, capsys):
    run(started, MADE[which][0] + "\nNone")
    made = weakref.ref(started.user_ns.pop("t"))
    started.user_ns.pop("d", None)
    gc.collect()
    assert made() is None


def test_a_reference_of_somebody_is_noticed(started):
    """Else the test above would prove nothing."""
    run(started, "t = torch.ones(5)", "r = weakref.ref(t)")
    kept = started.user_ns["t"]
    run(started, "del t")
    collect(started)
    assert started.user_ns["r"]() is kept


def test_the_graph_behind_a_result_dies_with_it(started):
    run(
        started,
        "class Ctx: pass\n"
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.marker = Ctx(); F.r = weakref.ref(ctx.marker); return x * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, g): return g\n"
        "y = F.apply(w).sum()",
        "y.backward()",
    )
    assert started.user_ns["F"].r() is not None
    run(started, "del y")
    collect(started)
    assert started.user_ns["F"].r() is None


def test_memory_that_the_cell_frees_is_freed_while_it_runs(started):
    run(
        started,
        "t = torch.ones(1000)\n"
        "d = t.data; d.add_(1)\n"
        "users = torch._C._storage_Use_Count(t.untyped_storage()._cdata)\n"
        "del d\n"
        "fewer = torch._C._storage_Use_Count(t.untyped_storage()._cdata)\n"
        "r = weakref.ref(t)\n"
        "del t\n"
        "dead = r() is None",
    )
    assert started.user_ns["dead"]
    assert started.user_ns["fewer"] == started.user_ns["users"] - 1


def test_a_watched_alias_holds_no_memory(started):
    cell = (
        "t = torch.ones(1000)\n"
        "s = t.untyped_storage()._cdata\n"
        "before = torch._C._storage_Use_Count(s)\n"
        "for _ in range(20):\n"
        "    d = t.data\n"
        "del d\n"
        "after = torch._C._storage_Use_Count(s)"
    )
    run(started, cell)
    assert started.user_ns["after"] == started.user_ns["before"]


def test_three_hundred_runs_of_a_cell_stack_nothing_up(careless_watcher):
    shell = careless_watcher.shell
    cell = (
        "v = torch.ones(3, requires_grad=True)\n"
        "h = v * 2; print(h.data)\n"
        "v.data.add_(1)\n"
        "loss = (h * v).sum()\nloss.backward()"
    )
    run(shell, START)

    def sizes():
        watch = careless_watcher._watch
        gc.collect()
        return (
            len(watch.last.seen),
            len(watch.last.names),
            len(watch.last.labels),
            len(watch.last.elements),
        )

    from IPython.utils.capture import capture_output

    with capture_output():
        run(shell, *[cell] * 3)
        first, before = sizes(), ours()
        run(shell, *[cell] * 300)
    assert sizes() == first
    after = ours()
    grown = {kind for kind in after if after[kind] - before[kind] >= 100}
    assert grown <= {*BOUNDED}
    assert all(after[kind] - before[kind] <= bound for kind, bound in BOUNDED.items())
    assert len(careless_watcher._watch.identities._entries) < 5000


BOUNDED = {
    "Write": writes.MAX_WRITES,
    "_Before": history.MAX_LEAVES,
    "CellSource": 2 * sources.MAX_CELLS,
    "_Cell": 2 * _source.MAX_CELLS,
    "Statement": 2 * _source.MAX_CELLS * 8,
}
"""What the latest cells are remembered by, and how much of that comes at most."""


def ours():
    """Return how many objects of each class of this package are alive."""
    gc.collect()
    # Not kind.__module__: a class that another test has left behind may refuse to be asked.
    modules = (
        (type(each), type.__dict__["__dict__"].__get__(type(each))) for each in gc.get_objects()
    )
    return Counter(
        kind.__name__
        for kind, names in modules
        if str(names.get("__module__")).startswith("ipy_autogradwatch")
    )


def test_the_last_report_does_not_hold_the_one_before(started):
    def alive():
        gc.collect()
        return sum(type(each) is CellReport for each in gc.get_objects())

    run(started, "a = 1")
    first = alive()
    run(started, "b = 1", "c = 1")
    assert alive() == first


# Reports.

RICH = [
    "net = nn.Linear(3, 1)\nopt = torch.optim.SGD(net.parameters(), 0.1)",
    "%%gradcheck\n"
    "net(torch.ones(3)).sum().backward()\n"
    "w.grad = torch.tensor([float('nan'), float('inf'), 1.0])\n"
    "w.data.add_(1)\nprint(w.data)\nd = w.data * w\nw.data = torch.ones(5)",
    "net.weight.grad = None\nlazy = nn.LazyLinear(2)\neye = torch.eye(2).to_sparse()",
    "z = w.detach().sum()\nlots = [torch.ones(1) for _ in range(2500)]",
]


def reports(shell):
    for cell in RICH:
        yield run(shell, cell)
    shell.run_cell("z.backward()", store_history=True)
    import ipy_autogradwatch as aw

    yield aw.last_report()


def test_reports_go_through_json_and_come_back_equal(started, capsys):
    for report in reports(started):
        plain = report.to_dict()
        text = json.dumps(plain, allow_nan=False)
        assert json.loads(text) == plain
        assert plain["version"] >= 1
        assert {*plain["after"]} == {*report.after}


def test_reports_hold_plain_values_only(started, capsys):
    for report in reports(started):
        assert foreign(report) == []


def test_a_tensor_in_a_report_would_be_noticed(started):
    from dataclasses import replace

    report = run(started, "a = 1")
    assert foreign(replace(report, cuts=(torch.ones(1),))) != []


def foreign(value):
    """Return what is in *value* besides strings, numbers, tuples, mappings and our nouns."""
    if value is None or type(value) in (str, int, float, bool) or isinstance(value, Enum):
        return []
    if type(value) in (tuple, list, frozenset):
        return [found for item in value for found in foreign(item)]
    if isinstance(value, Mapping):
        return [found for pair in value.items() for item in pair for found in foreign(item)]
    if is_dataclass(value) and type(value).__module__.startswith("ipy_autogradwatch.model"):
        return [found for each in fields(value) for found in foreign(getattr(value, each.name))]
    return [value]
