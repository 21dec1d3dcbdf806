"""``%%gradcheck`` shows the whole report; the cell below it is the cell it was."""

import math
import re
import warnings
from types import SimpleNamespace

import pytest
from conftest import new_shell
from IPython.core.error import UsageError
from support import run, run_failing

import ipy_autogradwatch as aw
from ipy_autogradwatch.notebook.cell_magic import rewrite_gradcheck

SUMMARY = "autogradwatch: "
START = "import torch\nx = torch.tensor([3.0, -4.0], requires_grad=True)"


@pytest.fixture
def started(watcher, shell):
    """A watched shell with a tensor ``x``."""
    run(shell, START)
    return shell


def data_lines(report):
    return [f.line for f in report.findings if f.code.startswith("AGW1")]


def test_it_shows_the_gradients_with_norm_largest_mean_and_nan(started, capsys):
    report = run(started, "%%gradcheck --full\ny = (x * x).sum()\ny.backward()")
    grad = report.after["x"].grad
    assert (grad.norm, grad.max_abs, grad.mean_abs, grad.nonfinite) == (10, 8, 7, 0)
    assert report.gradcheck
    (verdict,) = report.verdicts
    assert (verdict.leaf, verdict.root, verdict.verdict) == ("x", "y", "right")
    shown = capsys.readouterr().out
    assert "backward at line 3" in shown
    (row,) = [line for line in shown.splitlines() if line.split()[:2] == ["x", "10"]]
    assert row.split() == ["x", "10", "8", "7", "0", "new"]


def test_numbers_that_are_not_finite_are_counted(started):
    grad = run(started, "%%gradcheck\n(x / 0).sum().backward()\nx.grad[0] = 3").after["x"].grad
    assert grad.nonfinite == 1
    assert not math.isfinite(grad.norm) or grad.norm == 3


def test_a_cell_without_it_reads_no_gradients(started):
    assert run(started, "x.sum().backward()").after["x"].grad.norm is None


def test_it_shows_what_did_not_change(started, capsys):
    run(started, "z = 1")
    capsys.readouterr()
    run(started, "%%gradcheck\nz = 2")
    assert "x  (2,)" in capsys.readouterr().out


def test_it_shows_the_report_though_reports_are_off(watcher, started, capsys):
    watcher.settings.report = "off"
    run(started, "%%gradcheck\nx.sum().backward()")
    assert "gradient" in capsys.readouterr().out


def test_it_watches_its_cell_though_watching_is_off(started, capsys):
    run(started, "%autogradwatch off")
    capsys.readouterr()
    report = run(started, "%%gradcheck\nx.data\nx.sum().backward()")
    assert data_lines(report) == [2]
    assert report.after["x"].grad.norm == pytest.approx(math.sqrt(2))
    assert [change.name for change in report.changes] == ["x"]
    assert data_lines(run(started, "y = x.data")) == []


def test_its_value_is_the_value_of_the_cell(started, capsys):
    capsys.readouterr()
    result = started.run_cell("%%gradcheck\ny = 6\ny * 7", store_history=True)
    assert result.result == 42
    assert started.user_ns["_"] == started.user_ns["Out"][2] == 42
    assert capsys.readouterr().out.startswith("Out[2]: 42\n")


def test_a_semicolon_silences_its_value(started, capsys):
    capsys.readouterr()
    run(started, "%%gradcheck\n6 * 7;")
    assert "42" not in capsys.readouterr().out


def test_its_body_may_await_and_use_magics_and_the_system(started):
    cell = (
        "%%gradcheck\nimport asyncio\nawait asyncio.sleep(0)\nhere = %pwd\n"
        "said = !echo hello\n%time x.data\n%%not_a_magic = 1"
    ).rpartition("\n")[0]
    report = run(started, cell)
    assert started.user_ns["said"] == ["hello"]
    assert data_lines(report) == [6]


def test_a_future_import_may_come_first_in_its_body(started):
    run(started, "%%gradcheck\nfrom __future__ import annotations\ndef f(a: nosuch): pass")


@pytest.mark.parametrize(
    "body", ["a = 1\n1 / 0", "a = = 1", "def f():\n    1 / 0\nf()", "x.data.nosuch"]
)
def test_an_error_reads_as_in_a_plain_cell(started, capsys, body):
    # The plain cell has the call that ours becomes.
    plain = new_shell()
    run(plain, START)
    plain._ipy_autogradwatch = SimpleNamespace(begin_gradcheck=lambda options: None)
    first = rewrite_gradcheck(["%%gradcheck\n", "a\n"])[0]

    def printed(shell, cell):
        capsys.readouterr()
        shell.run_cell(cell, store_history=True)
        return capsys.readouterr().out.partition("autogradwatch\n")[0].partition(SUMMARY)[0]

    expected = printed(plain, first + body)
    assert "Error" in expected
    assert printed(started, "%%gradcheck\n" + body) == expected


def test_an_error_ends_the_cell_and_is_reported(started):
    error, report = run_failing(started, "%%gradcheck\ny = x.data\n1 / 0\ny = 2")
    assert isinstance(error, ZeroDivisionError)
    assert error.__traceback__.tb_next.tb_lineno == 3
    assert report.error == ("ZeroDivisionError", "division by zero")
    assert report.gradcheck
    assert data_lines(report) == [2]


def test_a_syntax_error_has_the_line_of_the_editor(started):
    error, report = run_failing(started, "%%gradcheck\n\na = = 1")
    assert error.lineno == 3
    assert report.cell == 2


def test_it_stands_in_the_history_once(started):
    cells = ["%%gradcheck\ny = x.data", "a = 1"]
    run(started, *cells)
    assert started.history_manager.input_hist_raw[2:] == cells
    assert len(started.history_manager.input_hist_parsed) == 4
    assert run(started, "1").cell == 4


@pytest.mark.parametrize(
    "cell",
    [
        "%%time\n%%gradcheck\nx.data\n",
        "%%gradcheck\n%%time\nx.data\n",
        "%%capture\n%%gradcheck\nx.data\n",
        "%%gradcheck\n%%capture\nx.data\n",
        "%%timeit -n2 -r1\n%%gradcheck\nx.data\n",
        "%%gradcheck\n%%timeit -n2 -r1\nx.data\n",
        "%%gradcheck\n%%gradcheck\nx.data\n",
        "%%gradcheck\n\nx.data\n",
    ],
)
def test_it_nests_with_other_magics(started, capsys, cell):
    capsys.readouterr()
    report = run(started, cell)
    assert report.gradcheck
    assert data_lines(report) == [3]
    assert capsys.readouterr().out.count("autogradwatch:") == 1


def test_an_error_below_two_magics_ends_as_it_does_below_one(started):
    plain = new_shell().run_cell("%%time\n1 / 0", store_history=True)
    both = started.run_cell("%%gradcheck\n%%time\n1 / 0", store_history=True)
    # Some versions' %%time shows the error and goes on.
    assert type(both.error_in_exec) is type(plain.error_in_exec)
    assert aw.last_report().gradcheck


@pytest.mark.parametrize("line", ["%%gradcheck --nosuch", "%%gradcheck f(x)", "%%gradcheck 'a"])
def test_options_that_it_does_not_know_are_one_line_and_nothing_runs(started, capsys, line):
    error, _ = run_failing(started, f"{line}\nran = True")
    assert isinstance(error, UsageError)
    assert "ran" not in started.user_ns
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("UsageError: %%gradcheck: ")
    assert "as in: %%gradcheck" in said


def test_names_in_braces_are_not_expanded(started):
    error, _ = run_failing(started, "%%gradcheck {x}\n1")
    assert "{x}" in str(error)


def test_without_a_body_it_says_what_is_missing(started, capsys):
    error, _ = run_failing(started, "%%gradcheck")
    assert isinstance(error, UsageError)
    assert "body is empty" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["%%gradcheck?", "%gradcheck?"])
def test_its_help_shows_how_it_is_used(started, capsys, question):
    run(started, question)
    shown = capsys.readouterr().out
    assert re.search(r"    %%gradcheck --wrt [\w.]+ --backwards 1\n    loss = model\(x\)", shown)
    for option in ("of", "wrt", "backwards", "directions", "tolerance", "no-numeric", "full"):
        assert f"--{option}" in shown
    assert "    %gradcheck f(x, weight=w)" in shown


@pytest.mark.parametrize("typed", ["%%gradcheck", "%%gradcheck\nx = 1", "%%gradcheck\nx = 1\n"])
def test_a_terminal_waits_for_the_end_of_the_cell(shell, watcher, typed):
    """As it does for any cell magic."""
    other = typed.replace("gradcheck", "time")
    complete = shell.check_complete if hasattr(shell, "check_complete") else None
    complete = complete or shell.input_transformer_manager.check_complete
    assert complete(typed) == complete(other)
    assert complete(typed)[0] == "incomplete" or typed.endswith("\n")


def test_a_rewrite_without_the_mark_would_not_wait(shell, watcher, monkeypatch):
    monkeypatch.delattr(rewrite_gradcheck, "has_side_effects")
    complete = getattr(shell, "check_complete", shell.input_transformer_manager.check_complete)
    assert complete("%%gradcheck\nx = 1\n") != complete("%%time\nx = 1\n")


def test_only_its_own_line_is_rewritten():
    for first in ("%%gradcheckx\n", "%%gradcheck?\n", "# a\n", "%gradcheck f(x)\n", "x\n"):
        assert rewrite_gradcheck([first, "a = 1\n"]) == [first, "a = 1\n"]
    assert rewrite_gradcheck([]) == []
    twice = rewrite_gradcheck(["%%gradcheck\n", "a = 1\n"])
    assert rewrite_gradcheck(twice) == twice
    assert len(twice) == 2


def test_by_hand_it_runs_its_body_and_returns_the_value(started):
    call = "value = get_ipython().run_cell_magic('gradcheck', '', 'y = x * 2\\nx.data\\ny')"
    report = run(started, call)
    assert started.user_ns["value"] is started.user_ns["y"]
    assert report.gradcheck
    (finding,) = report.findings
    assert (finding.file, finding.line, finding.source) == ("%%gradcheck", 3, "x.data")


def test_by_hand_an_error_has_the_line_of_the_body(started):
    call = "get_ipython().run_cell_magic('gradcheck', '', 'a = 1\\n1 / 0')"
    error, _ = run_failing(started, call)
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_lineno == 3


def test_before_torch_is_imported_it_is_a_plain_cell(watcher, shell, monkeypatch):
    monkeypatch.setattr("ipy_autogradwatch.observe.run.imported_torch", lambda: None)
    assert run(shell, "%%gradcheck\na = 1").cell == 1
    assert aw.last_report().after == {}


def test_nothing_is_warned_about(started):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(started, "%%gradcheck\ny = (x + 1j).abs().sum()\ny.backward()")
