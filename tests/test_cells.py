"""A watched cell is the cell it was, and every cell that a user runs has a report."""

import ast
import contextlib
import json
import os
import random
import re
import warnings

import pytest
from conftest import new_shell
from support import run, run_failing

import ipy_autogradwatch as aw
from ipy_autogradwatch import notebook
from ipy_autogradwatch.observe import run as runs

START = "import torch\nx = torch.ones(2, requires_grad=True)"


def data_lines(report):
    """Return (cell, line) of each use of ``.data`` in *report*."""
    return [(f.cell, f.line) for f in report.findings if f.code.startswith("AGW1")]


@pytest.fixture
def started(watcher, shell):
    """A watched shell with a tensor ``x``."""
    run(shell, START)
    return shell


def test_every_cell_has_a_report_with_the_number_in_its_prompt(watcher, shell, capsys):
    for number, cell in enumerate(["a = 1", "a", "%pwd", "!true", START, "a;"], start=1):
        assert run(shell, cell).cell == number
    assert "Out[2]: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("a = = 1", "SyntaxError"),
        ("%no_such_magic", "UsageError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("y = x.data\n1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_cell_that_fails_has_a_report_too(started, cell, error):
    exception, report = run_failing(started, cell)
    assert type(exception).__name__ == error
    assert report.error[0] == error
    assert report.cell == 2
    assert data_lines(report) == ([(2, 1)] if "data" in cell else [])
    assert run(started, "1").cell == 3


def test_leaving_the_program_is_reported_like_an_error(started):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # IPython says how to leave.
        exception, report = run_failing(started, "raise SystemExit(3)")
    assert isinstance(exception, SystemExit)
    assert report.error == ("SystemExit", "3")


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("", {"store_history": True}),
        ("  \n \n", {"store_history": True}),
        ("y = x.data", {"store_history": False}),
        ("y = x.data", {"silent": True}),
    ],
)
def test_executions_that_no_user_sees_leave_the_last_report(started, cell, options, capsys):
    report = run(started, "y = x.data")
    capsys.readouterr()
    started.run_cell(cell, **options)
    assert aw.last_report() is report
    assert capsys.readouterr().out == ""
    assert data_lines(run(started, "a = 1")) == []


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("\n\nx.data", 3),
        ("    x.data", 1),
        ("%time x.data", 1),
        ("%%time\n\nx.data", 3),
        ("%%time\nx.data", 2),
        ("%timeit -n1 -r1 x.data", 1),
        ("%%timeit -n1 -r1\nx.data", 2),
        ("%%capture\nprint(x.data)", 2),
        ("%%capture\n\nprint(x.data)", 3),
        ("%%capture\n%%time\nprint(x.data)", 3),
        ("%%time\n%%capture\nprint(x.data)", 3),
        ("!true\nx.data", 2),
        ("a = !echo one\nx.data", 2),
        ("%pwd\n%time x.data\n", 2),
        ("import asyncio\nawait asyncio.sleep(0)\nx.data", 3),
    ],
)
def test_lines_are_those_of_the_editor(started, cell, line):
    assert data_lines(run(started, cell)) == [(2, line)]


def test_lines_of_the_prompt_are_those_of_the_editor(started):
    assert data_lines(run(started, ">>> y = 1\n>>> x.data")) == [(2, 2)]


@pytest.mark.parametrize("cell", ["%%prun -q\ny = x.data", "%prun -q x.data"])
def test_prun_runs_unwatched(started, cell):
    assert data_lines(run(started, cell)) == []


def test_a_script_that_is_run_is_unwatched(started, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("y = x.data + 1\n")
    assert data_lines(run(started, f"%run -i {script}\nx.data")) == [(2, 2)]
    assert started.user_ns["y"].tolist() == [2, 2]


def write_notebook(path, *sources):
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for source in sources
    ]
    path.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_notebook_that_is_run_is_watched_under_its_own_name(
    started, tmp_path, monkeypatch, where
):
    path = tmp_path / "other.ipynb"
    write_notebook(path, "z = torch.zeros(1)", "\n\nprint(z.data)\ndef values(): return z.data")
    if where == "here":
        monkeypatch.chdir(tmp_path)
    report = run(started, f"x.data\n%run {path}")
    found = {(f.file, f.cell, f.line, f.source) for f in report.findings}
    name = "other.ipynb" if where == "here" else str(path)
    assert found == {(None, 2, 1, "x.data"), (name, None, 3, "print(z.data)")}
    (later,) = run(started, "values()").findings
    assert (later.file, later.cell, later.line) == (name, None, 4)


def test_code_that_is_run_from_a_string_is_no_line_of_the_cell(started):
    (finding,) = run(started, "get_ipython().run_cell('y = 1\\nx.data')").findings
    assert (finding.cell, finding.file, finding.line) == (None, "run_cell", 2)
    assert finding.source == "x.data"


def test_a_cell_in_a_cell_has_no_report_of_its_own(started, capsys):
    report = run(started, "get_ipython().run_cell('a = 1', store_history=True)\nx.data")
    assert (report.cell, data_lines(report)) == (2, [(2, 2)])
    assert capsys.readouterr().out.count("autogradwatch:") == 1


def test_functions_are_reported_at_the_cell_that_defined_them(started):
    run(started, "\ndef values(t):\n    return t.data", "a = 1")
    report = run(started, "values(x)")
    assert (report.cell, data_lines(report)) == (4, [(2, 3)])


def test_running_a_cell_again_stacks_nothing_up(started):
    for number in range(2, 12):
        report = run(started, "for _ in range(3):\n    y = x.data")
        assert data_lines(report) == [(number, 2)]
        assert report.findings[0].hits == 3
    watched = started.events.callbacks
    assert {name: len(called) for name, called in watched.items() if called} == {
        **{name: len(called) for name, called in new_shell().events.callbacks.items() if called},
        "pre_run_cell": 1,
        "post_run_cell": 1 + len(new_shell().events.callbacks["post_run_cell"]),
    }
    assert runs._running == []


def test_a_task_that_goes_on_after_its_cell_belongs_to_the_cell_that_runs(started):
    begin = (
        "import asyncio\n"
        "go = asyncio.Event()\n"
        "async def later():\n"
        "    await go.wait()\n"
        "    return x.data\n"
        "task = asyncio.ensure_future(later())\n"
        "await asyncio.sleep(0)\n"
    )
    assert data_lines(run(started, begin)) == []
    assert data_lines(run(started, "go.set()\nawait task")) == [(2, 5)]


def test_threads_belong_to_the_cell_that_runs(started):
    cell = (
        "import threading\n"
        "def read():\n"
        "    print(x.data)\n"
        "threads = [threading.Thread(target=read) for _ in range(4)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
    )
    report = run(started, cell)
    assert data_lines(report) == [(2, 3)]
    assert report.findings[0].hits == 4


def test_a_thread_that_outlives_its_cell_is_left_alone(started, capsys):
    begin = (
        "import threading\n"
        "go = threading.Event()\n"
        "def read():\n"
        "    go.wait()\n"
        "    return x.data\n"
        "thread = threading.Thread(target=read)\n"
        "thread.start()\n"
    )
    assert data_lines(run(started, begin)) == []
    started.user_ns["go"].set()
    started.user_ns["thread"].join()
    assert data_lines(run(started, "a = 1")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_silent(started, tmp_path, capfd):
    heard = tmp_path / "heard"
    # The child ends its cell as the parent does, and writes down what it was told.
    cell = "import os\nchild = os.fork()\ny = x.data"
    parent = os.getpid()
    report = aw.last_report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of a fork among threads.
        started.run_cell(cell, store_history=True)
    if os.getpid() != parent:
        heard.write_text(str(aw.last_report() is report))
        os._exit(0)
    os.waitpid(started.user_ns["child"], 0)
    assert heard.read_text() == "True"
    assert data_lines(aw.last_report()) == [(2, 3)]
    assert capfd.readouterr().out.count("autogradwatch:") == 1


def test_an_interrupted_cell_is_watched_up_to_there(started):
    _, report = run_failing(started, "x.data\nraise KeyboardInterrupt\nx.data")
    assert data_lines(report) == [(2, 1)]


# The same cells, with and without us.

CELLS = [
    "import torch\nfrom torch import nn",
    "x = torch.arange(3.0, requires_grad=True)",
    "x",
    "x.data",
    "x.data;",
    "_",
    "(Out[3] is _4, _i3)",
    "y = (x * 2).sum()\ny.backward()\nx.grad.data",
    "x.data += 1\nx",
    "x.data[0] = 9\nx.data = x.data * 2\nx",
    "x.data.nosuch",
    "x.data.add_(1)[17]",
    "def f(t):\n    return (t.data,\n            t.data / 0,\n            1 / 0)\n",
    "f(x)",
    "[f(t) for t in [x]]",
    "x.data + torch.ones(7)",
    "class A:\n    data = property(lambda self: 1 / 0)\nA().data",
    "None.data",
    "getattr(None, 'data')",
    "x.data = 3",
    "x.backward()",
    "torch.autograd.grad(\n    x.data.sum(),\n    x)",
    "for x.data in [torch.ones(2)]:\n    raise ValueError(x.data.shape)",
    "y = x.data = = 3",
    "if x.data.sum() > 0:\n        print('indented')\n    print(1)",
    "%%time\n1 / 0",
    "nosuch.data",
    "async def g():\n    return x.data.nosuch\nawait g()",
    "print(f'{x.data!r:>40}')\nf'{x.data.nosuch}'",
    "raise SystemExit('enough')",
    "%xmode Verbose",
    "x.data.nosuch",
    "import sys\nsys.displayhook.__class__.__name__, sys.excepthook.__name__",
]


def transcript(shell, capsys, cells):
    """Run *cells*; return what each printed and what it came to."""
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in cells:
            result = shell.run_cell(cell, store_history=True)
            error = result.error_before_exec or result.error_in_exec
            printed = capsys.readouterr()
            text = "\n".join(re.sub(r" at 0x[0-9a-f]+|.*(CPU|Wall).*", "", p) for p in printed)
            seen.append((cell, text, repr(error), repr(result.result), result.execution_count))
    seen.append(sorted(k for k in shell.user_ns["Out"]))
    return seen


@pytest.mark.parametrize("colors", ["nocolor", "linux"])
def test_outputs_and_tracebacks_are_the_same_with_and_without_us(capsys, colors):
    plain, watched = new_shell(), new_shell()
    extension = notebook.load(watched)
    extension.settings.report = "off"
    for shell in (plain, watched):
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shell.run_line_magic("colors", colors if colors == "nocolor" else "Linux")
        shell.ast_node_interactivity = "last_expr"
    try:
        expected = transcript(plain, capsys, CELLS)
        assert transcript(watched, capsys, CELLS) == expected
        assert list(extension.fence.history) == []
        assert data_lines(aw.last_report()) == []
        assert any("ZeroDivisionError" in text for _, text, *_ in expected[:-1])
    finally:
        notebook.unload(watched)


class _AddsAFrame(ast.NodeTransformer):
    """Reads an attribute through a function, as we do not."""

    def visit_Attribute(self, node):
        call = ast.Call(ast.Name("read", ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return ast.copy_location(call, node)


def test_the_comparison_notices_a_frame_too_many(capsys):
    plain, changed = new_shell(), new_shell()
    for shell in (plain, changed):
        run(shell, "import torch\nx = torch.ones(1)", "def read(o, name): return getattr(o, name)")
    expected = transcript(plain, capsys, ["x.data.nosuch"])
    changed.ast_transformers.append(_AddsAFrame())
    assert transcript(changed, capsys, ["x.data.nosuch"]) != expected


def test_the_state_of_the_process_is_the_cells_own(started):
    import torch

    def state():
        return {
            "torch's numbers": torch.get_rng_state().tolist(),
            "python's numbers": random.getstate(),
            "grad mode": torch.is_grad_enabled(),
            "inference mode": torch.is_inference_mode_enabled(),
            "default dtype": torch.get_default_dtype(),
            "warnings": list(warnings.filters),
            "modes": torch._C._len_torch_dispatch_stack(),
            "anomaly mode": torch.is_anomaly_enabled(),
            "hooks": (
                len(x._backward_hooks or ()),
                torch._C._autograd._saved_tensors_hooks_is_enabled(),
            ),
            "flags": (x.requires_grad, x._version, x.grad is None),
        }

    run(started, "%%gradcheck\ny = (x * x.data).sum()")  # What is imported is imported.
    x = started.user_ns["x"]
    before = state()
    run(started, "y = (x * x.data).sum()\nd = x.data", "%%gradcheck\ny = x.sum()")
    run(started, "with torch.no_grad():\n    x.data\nwith torch.inference_mode():\n    x.data")
    assert state() == before
    run(started, "x.data.mul_(2)\nx.sum().backward()")
    assert state() != before
    assert x.tolist() == [2, 2]


def test_a_watched_cell_draws_the_same_random_numbers(shell):
    cell = (
        "import torch\ntorch.manual_seed(3)\nm = torch.nn.Linear(3, 3)\n"
        "m.weight.data.normal_()\nm(torch.randn(2, 3)).sum().backward()\n"
        "numbers = (torch.rand(4).tolist(), m.weight.grad.tolist())"
    )
    run(shell, cell)
    plain = shell.user_ns["numbers"]
    notebook.load(shell)
    run(shell, "%%gradcheck\n" + cell)
    assert shell.user_ns["numbers"] == plain


def test_after_unloading_a_cell_is_a_plain_cell(started, capsys):
    run(started, "def values(): return x.data")
    notebook.unload(started)
    capsys.readouterr()
    started.run_cell("values() is not None", store_history=True).raise_error()
    assert capsys.readouterr().out == "Out[3]: True\n"


def test_a_cell_of_ten_thousand_lines_is_watched(started):
    report = run(started, "\n".join(["y = 1"] * 10_000 + ["x.data"]))
    assert data_lines(report) == [(2, 10_001)]
