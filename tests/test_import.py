"""``import ipy_autogradwatch`` is cheap, and shows what the documentation names."""

import subprocess
import sys
from collections.abc import Mapping

import pytest

import ipy_autogradwatch as aw

HEAVY = ("torch", "IPython", "rich", "traitlets", "numpy")


def loaded_after(statement):
    """Return which heavy packages a fresh interpreter has after *statement*."""
    program = f"import sys\n{statement}\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import ipy_autogradwatch",
        "import ipy_autogradwatch as aw\naw.RULES['AGW101'].name",
        "import ipy_autogradwatch.model, ipy_autogradwatch.fence, ipy_autogradwatch.instrument",
    ],
)
def test_importing_loads_nothing_heavy(statement):
    assert loaded_after(statement) == set()


def test_the_test_above_notices_what_is_loaded():
    assert loaded_after("import traitlets, rich") == {"traitlets", "rich"}


def test_importing_says_and_changes_nothing():
    program = (
        "import sys, warnings, builtins\n"
        "before = list(warnings.filters), sorted(vars(builtins)), sys.excepthook\n"
        "import ipy_autogradwatch\n"
        "assert (list(warnings.filters), sorted(vars(builtins)), sys.excepthook) == before"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_what_is_public_is_there():
    for name in aw.__all__:
        assert getattr(aw, name) is not None or name == "last_report"
    with pytest.raises(AttributeError, match="nosuch"):
        aw.nosuch  # noqa: B018


def test_rules_are_a_mapping_from_code_to_rule_that_cannot_be_changed():
    assert isinstance(aw.RULES, Mapping)
    assert all(rule.code == code for code, rule in aw.RULES.items())
    assert list(aw.RULES) == sorted(aw.RULES)
    with pytest.raises(TypeError):
        aw.RULES["AGW101"] = None
    assert aw.RULES is aw.RULES


def test_there_is_no_report_before_a_cell_has_run():
    program = "import ipy_autogradwatch as aw\nprint(aw.last_report())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


def test_the_last_report_is_that_of_the_cell_that_finished_last(watcher, shell):
    for number in (1, 2):
        shell.run_cell(f"a = {number}", store_history=True).raise_error()
        assert aw.last_report().cell == number
        assert aw.last_report() is watcher.report
