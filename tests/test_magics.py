"""``%autogradwatch`` and ``%config AutogradWatch`` steer what is watched and what is shown."""

import io
import sys

import IPython
import pytest
from IPython.core.error import UsageError
from support import run, run_failing

from ipy_autogradwatch import RULES
from ipy_autogradwatch.notebook.completion import words_for
from ipy_autogradwatch.notebook.config import REPORTS

START = "import torch\nx = torch.ones(2, requires_grad=True)"
READ = "print(x.data)"
HAS_MATCHERS = IPython.version_info[:2] >= (8, 6)


@pytest.fixture
def said(watcher, shell, capsys):
    """Run cells in a watched shell with a tensor ``x``; return what the last printed."""
    run(shell, START)

    def said(*cells):
        for cell in cells:
            capsys.readouterr()
            run(shell, cell)
        return capsys.readouterr().out

    return said


def codes(report):
    return [finding.code for finding in report.findings]


def test_status_is_what_it_says_without_a_command(said):
    assert said("%autogradwatch") == "autogradwatch is on; report: changes\n"
    assert said("%autogradwatch off", "%autogradwatch status").startswith("autogradwatch is off")


def test_status_names_what_is_ignored(said):
    assert "ignored: AGW101" in said("%autogradwatch ignore AGW101", "%autogradwatch")


def test_status_shows_the_last_failure_and_what_is_off_because_of_it(
    careless_watcher, shell, capsys
):
    for _ in range(3):
        with careless_watcher.fence.guard("render"):
            raise ValueError("no more ink")
    careless_watcher.fence.take_failures()
    run(shell, "%autogradwatch")
    shown = capsys.readouterr().out
    assert "render failed too often and is off until %reload_ext ipy_autogradwatch" in shown
    assert "last failure, in render:\nTraceback" in shown
    assert "no more ink" in shown


def test_off_and_on(said, shell):
    said("%autogradwatch off")
    assert codes(run(shell, READ)) == []
    said("%autogradwatch on")
    assert codes(run(shell, READ)) == ["AGW101"]


def test_off_says_nothing_and_on_does_not_call_everything_new(said):
    assert said("%autogradwatch off") == ""
    assert "autogradwatch" not in said("y = x * 2")
    assert said("%autogradwatch on") == ""


def test_functions_of_watched_cells_are_not_reported_while_it_is_off(said, shell):
    said("def f(): return x.data", "%autogradwatch off")
    assert codes(run(shell, "f()")) == []


@pytest.mark.parametrize("code", sorted(RULES))
def test_explain_shows_the_page_of_every_rule(said, code):
    shown = said(f"%autogradwatch explain {code.lower()}")
    assert shown.startswith(f"{code} {RULES[code].name}")
    assert "Write instead" in shown


def test_ignore_silences_a_rule_for_the_session(said, shell):
    assert codes(run(shell, READ)) == ["AGW101"]
    said("%autogradwatch ignore agw101", "%autogradwatch ignore AGW101")
    assert codes(run(shell, READ)) == []
    assert shell._ipy_autogradwatch.settings.ignore == ["AGW101"]


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("  # autogradwatch: ignore[AGW101]", []),
        ("  # autogradwatch: ignore[AGW102, AGW101]", []),
        ("  # autogradwatch: ignore[AGW102]", ["AGW101"]),
        ("  # autogradwatch", ["AGW101"]),
    ],
)
def test_a_comment_silences_its_own_line(said, shell, comment, found):
    assert codes(run(shell, READ + comment)) == found
    assert codes(run(shell, READ + comment + "\n" + READ)) == [*found, "AGW101"]


def test_report_shows_the_last_cell_in_full(said):
    said("z = 1", READ)
    shown = said("%autogradwatch report")
    # It is the report of the cell before: this one is not over yet.
    assert "AGW101" in shown
    assert "x  (2,)" in shown


def test_report_says_so_if_there_is_none(watcher, shell, capsys):
    run(shell, "%autogradwatch report")
    assert capsys.readouterr().out == "autogradwatch: no cell has been watched yet\n"


def test_report_chooses_what_is_shown_from_now_on(said, shell):
    cell = f"{READ}\ny = x * 2"
    shown = {
        choice: said(f"%autogradwatch report {choice}", cell, f"{cell}\nz = y")
        for choice in REPORTS
    }
    assert "AGW101" not in shown["off"]
    assert "AGW101" in shown["findings"]
    assert "+ z" not in shown["findings"]
    assert "x  (2,)" in shown["always"]
    assert "AGW101" in shown["changes"]
    assert len(shown["off"]) < len(shown["findings"]) < len(shown["always"])
    assert codes(run(shell, READ)) == ["AGW101"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nosuch", "unknown command 'nosuch'"),
        ("explain", "which rule?"),
        ("explain AGW999", "there is no rule 'AGW999'"),
        ("ignore", "which rule?"),
        ("ignore print", "there is no rule 'print'"),
        ("report sometimes", "'sometimes' is none of changes, always, findings, off"),
        ("on now", "takes no 'now'"),
        ("status all", "takes no 'all'"),
        ("report off please", "unrecognized arguments: please"),
        ("explain 'AGW101", "No closing quotation"),
    ],
)
def test_a_mistake_is_one_line_with_an_example(said, shell, capsys, line, message):
    capsys.readouterr()
    error, _ = run_failing(shell, f"%autogradwatch {line}")
    assert isinstance(error, UsageError)
    printed = capsys.readouterr()
    (told,) = printed.err.splitlines()
    assert message in told
    assert "as in: %autogradwatch" in told
    assert len(told) < 200
    assert printed.out == ""


def test_the_examples_in_the_mistakes_work(said, shell, capsys):
    for line in ("nosuch", "explain", "ignore", "report x", "on 1"):
        error, _ = run_failing(shell, f"%autogradwatch {line}")
        run(shell, str(error).partition("as in: ")[2])


def test_help_lists_the_commands(said):
    shown = said("%autogradwatch?")
    for command in ("off", "explain AGW102", "ignore AGW101", "report findings"):
        assert f"%autogradwatch {command}" in shown


def test_config_shows_and_sets(said, shell):
    shown = said("%config AutogradWatch")
    assert "AutogradWatch.report" in shown
    said("%config AutogradWatch.report = 'off'", "%config AutogradWatch.max_findings = 2")
    settings = shell._ipy_autogradwatch.settings
    assert (settings.report, settings.max_findings) == ("off", 2)
    said("%config AutogradWatch.enabled = False")
    assert codes(run(shell, READ)) == []


def test_config_does_not_take_what_does_not_fit(said, shell):
    said("%config AutogradWatch.report = 'nonsense'")
    assert shell._ipy_autogradwatch.settings.report == "changes"


def test_settings_in_a_configuration_file_hold(shell, capsys):
    from ipy_autogradwatch import notebook

    shell.config.AutogradWatch.report = "findings"
    shell.config.AutogradWatch.ignore = ["AGW101"]
    notebook.load(shell)
    run(shell, START)
    assert codes(run(shell, READ)) == []
    assert "autogradwatch" not in capsys.readouterr().out


def test_max_findings_bounds_what_is_shown(said, shell):
    said("%config AutogradWatch.max_findings = 2")
    shown = said("\n".join([READ] * 5))
    assert shown.count("AGW101") == 2
    assert "3 more" in shown


@pytest.mark.parametrize(
    ("line", "words", "fragment"),
    [
        ("%autogradwatch ", {"on", "off", "status", "explain", "ignore", "report"}, ""),
        ("%autogradwatch ex", {"on", "off", "status", "explain", "ignore", "report"}, "ex"),
        ("%autogradwatch explain ", set(RULES), ""),
        ("  %autogradwatch ignore AGW1", set(RULES), "AGW1"),
        ("%autogradwatch report ", set(REPORTS), ""),
        ("%autogradwatch status ", set(), ""),
        ("%config AutogradWatch.report=", {f"'{choice}'" for choice in REPORTS}, ""),
        ("%config AutogradWatch.report = 'fi", {f"'{choice}'" for choice in REPORTS}, "'fi"),
        ("autogradwatch ", set(), ""),
        ("x = 1", set(), ""),
        ("%autogradwatchers ", set(), ""),
    ],
)
def test_the_words_that_may_follow(line, words, fragment):
    found, start = words_for(line)
    assert set(found) == words
    if words:
        assert start == fragment


def completed(shell, line):
    """Return what a press of Tab offers."""
    from IPython.core.completer import provisionalcompleter

    shell.Completer.use_jedi = False
    with provisionalcompleter():
        return [completion.text for completion in shell.Completer.completions(line, len(line))]


@pytest.mark.skipif(not HAS_MATCHERS, reason="this IPython has no matchers")
def test_tab_completes_commands_codes_and_choices(said, shell):
    assert completed(shell, "%autogradwatch ex") == ["explain"]
    assert set(completed(shell, "%autogradwatch explain AGW10")) == {
        c for c in RULES if c < "AGW110"
    }
    assert completed(shell, "%autogradwatch report fi") == ["findings"]
    assert completed(shell, "%config AutogradWatch.report='fi") == ["'findings'"]


@pytest.mark.skipif(not HAS_MATCHERS, reason="this IPython has no matchers")
def test_other_completions_are_left_alone(said, shell):
    run(shell, "some_name = 1")
    assert "some_name" in completed(shell, "some_na")
    assert completed(shell, "%autogradwatch status zzz") == []


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "is_colored"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_whose_user_wants_them(
    said, shell, monkeypatch, variables, is_colored
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shell.run_line_magic("colors", "linux" if IPython.version_info[0] >= 9 else "Linux")
    screen = _Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    run(shell, "x.data;")
    shown = screen.getvalue()
    assert "AGW101" in shown
    assert ("\x1b[" in shown) == is_colored


def test_there_are_no_colours_in_a_file(said):
    assert "\x1b[" not in said("x.data")


def test_a_report_is_as_wide_as_the_terminal(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = said(READ)
    assert max(map(len, shown.splitlines())) <= 60
