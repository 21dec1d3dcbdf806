"""Our own errors cost a line in the report, never the cell."""

import logging
import sys

import pytest
from support import run, run_failing

import ipy_autogradwatch as aw
from ipy_autogradwatch import instrument as instrument_module
from ipy_autogradwatch.fence import MAX_FAILURES, Fence, attempt, safe_str
from ipy_autogradwatch.notebook import extension as extension_module
from ipy_autogradwatch.observe import run as run_module
from ipy_autogradwatch.observe.gather import Gathering

START = "import torch\nx = torch.tensor([1.0, 2.0], requires_grad=True)"
CELL = "y = (x.data * 3).sum().item()\nz = (x * 2).sum()\nz.backward()\n(y, x.grad.tolist())"


def broken(*_, **__):
    raise RuntimeError("out of order")


STAGES = {
    "instrument": (instrument_module, "instrument"),
    "start of the cell": (extension_module.Extension, "_new_run"),
    "before the cell": (run_module.Run, "_look"),
    "probe": (Gathering, "take"),
    "after the cell": (run_module.Run, "_record"),
    "diagnose": (extension_module, "findings"),
    "changes": (extension_module, "changes"),
    "render": (extension_module, "show_report"),
    "end of the cell": (extension_module.Extension, "_diagnose"),
}


@pytest.fixture
def break_stage(careless_watcher, shell, monkeypatch, capsys):
    """Break a stage of a watched shell with a tensor ``x``."""
    run(shell, START)
    capsys.readouterr()

    def break_stage(stage, how=broken):
        owner, name = STAGES[stage]
        monkeypatch.setattr(owner, name, how)

    return break_stage


@pytest.mark.parametrize("stage", STAGES)
def test_a_cell_is_right_though_a_stage_of_ours_breaks(
    break_stage, careless_watcher, shell, capsys, stage
):
    break_stage(stage)
    result = shell.run_cell(CELL, store_history=True)
    assert result.success
    assert result.result == (9.0, [2.0, 2.0])
    assert "out of order" in careless_watcher.fence.history[0].summary
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "Traceback" not in printed.out


@pytest.mark.parametrize(
    "stage", sorted(set(STAGES) - {"render", "end of the cell", "start of the cell"})
)
def test_the_report_says_in_one_line_that_it_is_incomplete(break_stage, shell, capsys, stage):
    break_stage(stage)
    report = run(shell, "y = x.data * 2")
    assert report.cell == 2
    assert {failure.summary for failure in report.failures} == {"RuntimeError: out of order"}
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("this report is incomplete") == len(report.failures) >= 1


@pytest.mark.parametrize("stage", ["render", "end of the cell", "start of the cell"])
def test_a_failure_that_leaves_no_report_is_in_the_next_one(
    break_stage, shell, capsys, stage, monkeypatch
):
    break_stage(stage)
    run(shell, "y = x.data * 2")
    monkeypatch.undo()
    report = run(shell, "y = 2")
    assert [str(failure).partition(":")[0] for failure in report.failures] == [stage]


def test_a_report_of_stages_that_work_says_nothing_of_the_kind(careless_watcher, shell, capsys):
    run(shell, START)
    assert run(shell, "y = x.data * 2").failures == ()
    assert "incomplete" not in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_of_the_user_is_theirs_though_a_stage_breaks(break_stage, shell, capsys, stage):
    break_stage(stage)
    error, _ = run_failing(shell, "y = x.data\n1 / 0")
    assert isinstance(error, ZeroDivisionError)
    assert "RuntimeError" not in capsys.readouterr().out.partition("autogradwatch")[0]


@pytest.mark.parametrize("stage", ["instrument", "probe"])
def test_a_stage_that_keeps_failing_is_closed(break_stage, careless_watcher, shell, capsys, stage):
    break_stage(stage)
    for _ in range(MAX_FAILURES + 2):
        run(shell, "y = x.data")
    assert len(careless_watcher.fence.history) == MAX_FAILURES
    assert careless_watcher.fence.closed_stages() == (stage,)
    capsys.readouterr()
    run(shell, "y = x.data", "z = x * 2")
    assert "incomplete" not in capsys.readouterr().out
    assert [change.name for change in aw.last_report().changes] == ["z"]


def test_a_probe_in_a_loop_fails_a_few_times_only(break_stage, shell):
    calls = []

    def counted(*_):
        calls.append(1)
        raise RuntimeError("out of order")

    break_stage("probe", counted)
    report = run(shell, "for _ in range(1000):\n    x.data")
    assert len(calls) == MAX_FAILURES
    assert len(report.failures) == MAX_FAILURES


def test_a_tree_is_the_users_if_it_cannot_be_instrumented(break_stage, shell, monkeypatch):
    monkeypatch.setattr("ipy_autogradwatch.instrument.EditorSource.site", broken)
    run(shell, "y = x.data")
    code = shell.user_ns["In"][-1]
    assert code == "y = x.data"
    run(shell, "def f():\n    return x.data")
    assert "__autogradwatch__" not in shell.user_ns["f"].__code__.co_names


@pytest.mark.parametrize("stage", ["instrument", "probe"])
def test_an_interrupt_that_lands_in_our_code_is_the_users(
    break_stage, careless_watcher, shell, capsys, stage
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    break_stage(stage, interrupted)
    result = shell.run_cell("ran = False\ny = x.data\nran = True", store_history=True)
    assert not result.success
    assert not shell.user_ns.get("ran")
    assert list(careless_watcher.fence.history) == []
    assert "KeyboardInterrupt" in capsys.readouterr().out


def test_an_interrupt_at_the_end_of_a_cell_leaves_the_next_one_watched(
    break_stage, shell, monkeypatch, capsys
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    break_stage("changes", interrupted)
    shell.run_cell("y = x.data", store_history=True)
    monkeypatch.undo()
    report = run(shell, "y = x.data")
    assert [finding.line for finding in report.findings] == [1]
    assert run_module._running == []


def test_loading_again_opens_what_was_closed(break_stage, shell, monkeypatch):
    break_stage("instrument")
    for _ in range(MAX_FAILURES):
        run(shell, "y = x.data")
    monkeypatch.undo()
    run(shell, "y = x.data")
    assert aw.last_report().findings == ()
    aw.unload_ipython_extension(shell)
    aw.load_ipython_extension(shell)
    assert len(run(shell, "y = x.data").findings) == 1


# The fence itself.


def test_an_error_becomes_a_failure_with_its_traceback():
    fence = Fence()
    with fence.guard("render"):
        broken()
    (failure,) = fence.take_failures()
    assert str(failure) == "render: RuntimeError: out of order"
    assert "in broken" in failure.traceback
    assert fence.take_failures() == ()
    assert list(fence.history) == [failure]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_error_passes(error):
    fence = Fence()

    def raise_it():
        raise error

    with pytest.raises(error), fence.guard("probe"):
        raise_it()
    with pytest.raises(error):
        fence.call("probe", raise_it)
    assert list(fence.history) == []


def test_a_deep_recursion_of_ours_is_a_failure_like_another():
    def recurse():
        recurse()

    fence = Fence()
    with fence.guard("diagnose"):
        recurse()
    (failure,) = fence.take_failures()
    assert failure.summary.startswith("RecursionError")
    assert len(failure.traceback) < 10_000


def test_a_closed_stage_is_not_called_and_the_others_are():
    fence = Fence()
    called = []
    for _ in range(MAX_FAILURES + 1):
        fence.call("probe", broken)
    fence.call("probe", called.append, "probe")
    fence.call("render", called.append, "render")
    assert called == ["render"]
    assert not fence.is_open("probe")
    assert fence.is_open("render")


def test_failures_that_nobody_takes_do_not_pile_up():
    fence = Fence()
    for _ in range(1000):
        with fence.guard("render"):
            broken()
    assert len(fence.take_failures()) == len(fence.history) == fence.history.maxlen


def test_failures_are_not_logged_where_a_notebook_shows_them(caplog):
    with caplog.at_level(logging.INFO):
        Fence().call("render", broken)
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG):
        Fence().call("render", broken)
    assert "render" in caplog.text


def test_an_error_whose_text_cannot_be_had_is_a_failure_too():
    class Mute(Exception):
        def __str__(self):
            raise OSError

    fence = Fence()

    def mute():
        raise Mute

    fence.call("render", mute)
    (failure,) = fence.take_failures()
    assert failure.summary == "Mute: <str() raised OSError>"
    assert safe_str(Mute()) == "<str() raised OSError>"


def test_a_refusal_is_a_default_and_an_interrupt_is_not():
    assert attempt(lambda: 3, None) == 3
    assert attempt(lambda: 1 / 0, "none") == "none"
    with pytest.raises(SystemExit):
        attempt(sys.exit, None)
