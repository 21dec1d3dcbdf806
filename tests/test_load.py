"""The extension comes and goes, and gives the shell back as it found it."""

import ast
import builtins
import gc
import logging
import re
import subprocess
import sys
import warnings
import weakref

import pytest
from conftest import new_shell
from IPython.core.magic import Magics, line_magic, magics_class
from support import run
from traitlets.config import Configurable

import ipy_autogradwatch as aw
from ipy_autogradwatch import notebook
from ipy_autogradwatch.instrument import PROBE_NAME
from ipy_autogradwatch.notebook.extension import ATTRIBUTE, Extension
from ipy_autogradwatch.observe.probe import PROBE
from ipy_autogradwatch.observe.run import current_run

LOAD, UNLOAD = "%load_ext ipy_autogradwatch", "%unload_ext ipy_autogradwatch"
TENSOR = "import torch\nx = torch.ones(2, requires_grad=True)"
IPYTHONS_OWN = re.compile(r"_+|_i+|_i?\d+|_exit_code|In|Out|_oh|_ih|_dh")

LATE = {"_last_input_line"}  # IPython sets it when it first needs it.


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """As in a new process: no test before this one has compiled a cell."""
    monkeypatch.setattr(Extension, "_sites_compiled", False)
    monkeypatch.delattr(builtins, PROBE_NAME, raising=False)


def snapshot(shell):
    """Return all that an extension could leave behind in a shell or in the process."""
    manager = shell.magics_manager
    if hasattr(manager, "load_all_lazy_magics"):
        manager.load_all_lazy_magics()
    return {
        "events": {name: list(called) for name, called in shell.events.callbacks.items()},
        "syntax trees": list(shell.ast_transformers),
        "cleanup": list(shell.input_transformers_cleanup),
        "input": list(shell.input_transformers_post),
        "line magics": dict(manager.magics["line"]),
        "cell magics": dict(manager.magics["cell"]),
        "registry": dict(manager.registry),
        "configurables": list(shell.configurables),
        "matchers": list(shell.Completer.custom_matchers),
        "observers": {
            (name, kind): list(called)
            for name, kinds in shell._trait_notifiers.items()
            for kind, called in kinds.items()
            if called
        },
        "attributes": set(vars(shell)) - LATE,
        "namespace": {n for n in shell.user_ns if not IPYTHONS_OWN.fullmatch(n)},
        "hidden": {n for n in shell.user_ns_hidden if not IPYTHONS_OWN.fullmatch(n)},
        "builtins": set(vars(builtins)),
        "modules": {n for n in sys.modules if n.partition(".")[0] != "ipy_autogradwatch"},
        "hooks": (sys.displayhook, sys.excepthook, shell.custom_exceptions, shell.CustomTB),
        "warnings": list(warnings.filters),
        "logging": list(logging.getLogger().handlers),
    }


def differences(before, after):
    return {kind for kind in before if before[kind] != after[kind]}


def lines(report):
    return [finding.line for finding in report.findings]


def load_and_unload_twice(shell, *cells):
    for _ in range(2):
        notebook.load(shell)
        for cell in cells:
            run(shell, cell)
        notebook.unload(shell)
        notebook.load(shell)
        notebook.unload(shell)


def test_unloading_leaves_nothing_behind(shell):
    before = snapshot(shell)
    load_and_unload_twice(shell)
    assert differences(before, snapshot(shell)) == set()


def test_unloading_leaves_nothing_behind_after_cells_without_a_site(shell):
    cells = [TENSOR, "y = (x * 2).sum()", "%%gradcheck\ny.backward()"]
    load_and_unload_twice(shell, *cells)  # What rendering imports is imported now.
    before = snapshot(shell)
    load_and_unload_twice(shell, *cells, "y = (x * 2).sum()")
    assert differences(before, snapshot(shell)) == set()


def test_only_an_inert_probe_stays_for_functions_that_call_it(shell):
    run(shell, TENSOR)
    notebook.load(shell)
    run(shell, "%%gradcheck\nx.sum()")  # What rendering imports is imported now.
    notebook.unload(shell)
    before = snapshot(shell)
    load_and_unload_twice(shell, "def values():\n    return x.data\nvalues()", "del values")
    after = snapshot(shell)
    assert differences(before, after) == {"builtins", "namespace", "hidden"}
    for kind in ("builtins", "namespace", "hidden"):
        assert after[kind] - before[kind] == {PROBE_NAME}
    PROBE(shell.user_ns["x"], (), 0)
    assert current_run() is None


def _matcher(event):
    return []


@magics_class
class _Theirs(Magics):
    @line_magic
    def left_behind(self, line):
        return "theirs"


RESIDUE = {
    "events": lambda s: s.events.register("pre_run_cell", lambda info: None),
    "syntax trees": lambda s: s.ast_transformers.append(ast.NodeTransformer()),
    "cleanup": lambda s: s.input_transformers_cleanup.append(list),
    "input": lambda s: s.input_transformers_post.append(list),
    "line magics": lambda s: s.register_magic_function(_matcher, "line", "left_behind"),
    "cell magics": lambda s: s.register_magic_function(_matcher, "cell", "left_behind"),
    "registry": lambda s: s.magics_manager.registry.update(left_behind=None),
    "configurables": lambda s: s.configurables.append(Configurable()),
    "matchers": lambda s: s.Completer.custom_matchers.append(_matcher),
    "observers": lambda s: s.observe(lambda change: None, "colors"),
    "attributes": lambda s: setattr(s, "_left_behind", 1),
    "namespace": lambda s: s.user_ns.update(left_behind=1),
    "hidden": lambda s: s.user_ns_hidden.update(left_behind=1),
    "builtins": lambda s: setattr(builtins, "left_behind", 1),
    "modules": lambda s: sys.modules.update(left_behind=sys),
    "hooks": lambda s: setattr(sys, "excepthook", lambda *_: None),
    "warnings": lambda s: warnings.simplefilter("ignore"),
    "logging": lambda s: logging.getLogger().addHandler(logging.NullHandler()),
}


@pytest.mark.parametrize("kind", RESIDUE)
def test_the_snapshot_notices_what_stays(shell, kind, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    before = snapshot(shell)
    with warnings.catch_warnings():
        RESIDUE[kind](shell)
        after = snapshot(shell)
    vars(builtins).pop("left_behind", None)
    sys.modules.pop("left_behind", None)
    assert differences(before, after) == {kind}
    assert set(RESIDUE) == set(before)


def test_nothing_of_a_shell_is_kept_after_it_is_unloaded():
    shell = new_shell()
    notebook.load(shell)
    run(shell, TENSOR, "x.data")
    extension = weakref.ref(getattr(shell, ATTRIBUTE))
    notebook.unload(shell)
    del shell
    gc.collect()
    assert extension() is None


def test_the_result_of_a_cell_does_not_keep_what_was_observed(watcher, shell):
    run(shell, TENSOR)
    result = shell.run_cell("y = x.data", store_history=True)
    assert not any("autogradwatch" in type(held).__module__ for held in vars(result.info).values())
    assert not [name for name in vars(result.info) if "autogradwatch" in name]


def test_two_hundred_loads_and_unloads_do_not_grow(shell):
    def objects():
        gc.collect()
        return len(gc.get_objects())

    def cycle(times):
        for _ in range(times):
            notebook.load(shell)
            notebook.unload(shell)

    cycle(5)
    before = objects()
    cycle(200)
    assert objects() - before < 100


def test_a_load_that_fails_half_way_leaves_nothing(shell, monkeypatch):
    before = snapshot(shell)

    def fail(shell):
        raise OSError("no matcher today")

    monkeypatch.setattr("ipy_autogradwatch.notebook.extension.add_matcher", fail)
    with pytest.raises(OSError, match="no matcher today"):
        notebook.load(shell)
    assert differences(before, snapshot(shell)) == set()


_WITHOUT_TORCH = """
import sys
sys.path.insert(0, {tests!r})
from conftest import new_shell
import ipy_autogradwatch as aw

shell = new_shell()
before = set(sys.modules)
aw.load_ipython_extension(shell)
shell.run_cell("a = [1]", store_history=True).raise_error()
new = {{name.partition(".")[0] for name in set(sys.modules) - before}} - {{"IPython"}}
print(sorted(new - set(sys.stdlib_module_names)))
print(aw.last_report().cell)
shell.run_cell("import torch\\nx = torch.ones(2)", store_history=True).raise_error()
print(list(aw.last_report().after))
shell.run_cell("y = x.data", store_history=True).raise_error()
print([(f.code[:4], f.line) for f in aw.last_report().findings])
"""


def test_loading_imports_nothing_foreign_and_watching_begins_with_torch(tmp_path):
    script = _WITHOUT_TORCH.format(tests=str(__file__).rpartition("test_load")[0])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line[:1] in "[1"]
    assert lines == ["['ipy_autogradwatch']", "1", "['x']", "[('AGW1', 1)]"]


def test_loading_twice_is_loading_once(shell):
    notebook.load(shell)
    loaded = snapshot(shell)
    notebook.load(shell)
    assert differences(loaded, snapshot(shell)) == set()


def test_load_ext_twice_is_loading_once(shell, capsys):
    run(shell, LOAD)
    loaded = snapshot(shell)
    run(shell, LOAD)
    assert differences(loaded, snapshot(shell)) == set()
    assert "already loaded" in capsys.readouterr().out


def test_unloading_what_is_not_loaded_does_nothing(shell):
    before = snapshot(shell)
    aw.unload_ipython_extension(shell)
    assert differences(before, snapshot(shell)) == set()


def test_loading_prints_nothing(shell, capsys):
    run(shell, LOAD)
    assert capsys.readouterr() == ("", "")


def test_reload_ext_watches_with_a_new_extension(shell):
    run(shell, LOAD, TENSOR)
    first = getattr(shell, ATTRIBUTE)
    run(shell, "%reload_ext ipy_autogradwatch")
    second = getattr(shell, ATTRIBUTE)
    assert second is not first
    assert first not in shell.ast_transformers
    assert lines(run(shell, "y = x.data")) == [1]
    run(shell, UNLOAD)
    assert not hasattr(shell, ATTRIBUTE)


def test_a_cell_that_reloads_has_one_report(shell, capsys):
    run(shell, LOAD, TENSOR)
    report = run(shell, "%reload_ext ipy_autogradwatch\ny = x * 2")
    assert report.cell == 3
    assert [change.name for change in report.changes] == ["y"]
    assert capsys.readouterr().out.count("autogradwatch") == 2


def test_the_cell_that_loads_is_watched_from_there(shell):
    report = run(shell, TENSOR, LOAD + "\ny = x * 2")
    assert report.cell == 2
    assert [(change.name, change.kind.value) for change in report.changes] == [("y", "added")]


def test_a_cell_magic_that_loads_has_a_report(shell):
    report = run(shell, TENSOR, f"%%capture\n{LOAD}\ny = x * 2")
    assert report.cell == 2
    assert report.failures == ()


def test_a_cell_may_unload_the_extension_that_watches_it(shell):
    run(shell, LOAD, TENSOR)
    before = aw.last_report()
    run(shell, f"y = x.data\n{UNLOAD}\ny = x.data")
    assert aw.last_report() is before
    assert not hasattr(shell, ATTRIBUTE)
    assert current_run() is None


def test_a_cell_in_a_cell_may_unload_the_extension(shell):
    run(shell, LOAD, TENSOR)
    run(shell, f"%%capture\n{UNLOAD}")
    from ipy_autogradwatch.observe import run as runs

    assert current_run() is None
    assert runs._running == []


def test_functions_outlive_the_extension(shell, capsys):
    run(shell, LOAD, TENSOR, "def values():\n    return x.data")
    run(shell, UNLOAD)
    capsys.readouterr()
    run(shell, "values().add_(1)\nassert x.tolist() == [2, 2]")
    assert "autogradwatch" not in capsys.readouterr().out
    report = run(shell, LOAD, "values()")
    assert [(f.cell, f.line) for f in report.findings] == [(3, 2)]


def test_reset_does_not_take_the_probe_away(shell):
    run(shell, LOAD, TENSOR)
    report = run(shell, "%reset -f\n" + TENSOR + "\ny = x.data")
    assert lines(report) == [4]
    run(shell, "%reset -f")
    assert lines(run(shell, TENSOR + "\ny = x.data")) == [3]
    run(shell, "def f(): return x.data", "%reset -f")
    assert PROBE_NAME not in run_and_list_names(shell)


def run_and_list_names(shell):
    run(shell, TENSOR + "\nx.data")
    return shell.run_line_magic("who_ls", "")


def test_each_shell_has_its_own_findings():
    first, second = new_shell(), new_shell()
    watchers = [notebook.load(shell) for shell in (first, second)]
    run(first, TENSOR)
    run(second, TENSOR)
    run(first, "y = x.data")
    run(second, "1", "2", "z = x.data")
    try:
        assert [(f.cell, f.line) for f in watchers[0].report.findings] == [(2, 1)]
        assert [(f.cell, f.line) for f in watchers[1].report.findings] == [(4, 1)]
        assert aw.last_report() is watchers[1].report
        notebook.unload(first)
        assert [(f.cell, f.line) for f in run(second, "z = x.data").findings] == [(5, 1)]
        assert PROBE_NAME in vars(builtins)
        run(first, "y = x.data")
        assert aw.last_report() is watchers[1].report
    finally:
        notebook.unload(first)
        notebook.unload(second)


def test_a_shell_that_a_cell_of_another_drives_has_its_own_findings():
    outer, inner = new_shell(), new_shell()
    watchers = [notebook.load(shell) for shell in (outer, inner)]
    run(outer, TENSOR)
    run(inner, TENSOR)
    outer.user_ns["inner"] = inner
    try:
        run(outer, "inner.run_cell('y = x.data', store_history=True).raise_error()\na = x.data")
        assert [(f.cell, f.line) for f in watchers[1].report.findings] == [(2, 1)]
        assert [(f.cell, f.line) for f in watchers[0].report.findings] == [(2, 2)]
    finally:
        notebook.unload(outer)
        notebook.unload(inner)


class _Doubling(ast.NodeTransformer):
    def visit_Constant(self, node):
        if type(node.value) is int:
            return ast.copy_location(ast.Constant(2 * node.value), node)
        return node


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_another_transformer_works_beside_ours(shell, first):
    theirs = _Doubling()
    if first == "theirs":
        shell.ast_transformers.append(theirs)
    extension = notebook.load(shell)
    if first == "ours":
        shell.ast_transformers.append(theirs)
    report = run(shell, "import torch\nx = torch.ones(1)\ny = x.data + 3")
    assert shell.user_ns["y"].tolist() == [7, 7]
    assert lines(report) == [3]
    notebook.unload(shell)
    assert shell.ast_transformers == [theirs]
    assert list(extension.fence.history) == []


class _Failing(ast.NodeTransformer):
    def visit(self, node):
        raise ValueError("not today")


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_another_transformer_that_fails_costs_one_cell_at_most(shell, first):
    if first == "theirs":
        shell.ast_transformers.append(_Failing())
    notebook.load(shell)
    if first == "ours":
        shell.ast_transformers.append(_Failing())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "AST transformer .* threw an error")
        assert run(shell, TENSOR + "\ny = x.data").cell == 1
    assert lines(run(shell, "y = x.data")) == [1]


def test_settings_that_do_not_fit_do_not_keep_us_from_loading(shell, capsys):
    run(shell, LOAD, "%config AutogradWatch.max_findings = 3")
    shell.run_cell("%config AutogradWatch.report = 'nonsense'")
    run(shell, UNLOAD)
    capsys.readouterr()
    run(shell, LOAD)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "nonsense" in said[0]
    settings = getattr(shell, ATTRIBUTE).settings
    assert (settings.report, settings.max_findings) == ("changes", 3)


def test_magics_of_the_same_name_are_given_back(shell):
    def gradcheck(line, cell=None):
        return "theirs"

    shell.register_magic_function(gradcheck, "line", "gradcheck")
    before = snapshot(shell)
    notebook.load(shell)
    assert shell.find_line_magic("gradcheck") is not gradcheck
    notebook.unload(shell)
    assert differences(before, snapshot(shell)) == set()
    assert shell.find_line_magic("gradcheck") is gradcheck


def test_magics_that_somebody_put_over_ours_stay(shell):
    def gradcheck(line, cell=None):
        return "theirs"

    notebook.load(shell)
    shell.register_magic_function(gradcheck, "line", "gradcheck")
    notebook.unload(shell)
    assert shell.find_line_magic("gradcheck") is gradcheck
