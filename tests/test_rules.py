"""Every rule keeps what it promises: a code, a name, examples that run, and a page.

Nothing here names a rule: one more module in ``ipy_autogradwatch/rules`` is one more row in
each of these tests. The one thing that is known of other rules is the design's promise that
a line whose ``.data`` met a tensor always has a finding: a note of `HARMLESS` may stand
beside what an example is about, at such a line and nowhere else.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections import Counter
from dataclasses import replace

import pytest
from conftest import new_shell
from IPython.core.error import UsageError
from support import places

import ipy_autogradwatch as aw
from ipy_autogradwatch import notebook
from ipy_autogradwatch.model import Severity
from ipy_autogradwatch.rules import all_rules, rule_page

RULES = [pytest.param(rule, id=f"{rule.code}-{rule.name}") for rule in all_rules()]
EXAMPLES = [
    pytest.param(rule, kind, id=f"{rule.code}-{kind}")
    for rule in all_rules()
    for kind in ("bad", "good", "near_miss")
]
HARMLESS = ("AGW101", "AGW102", "AGW103", "AGW104")
_VERDICT_WORDS = ("use", "avoid", "prefer", "do-not", "dont", "should")


def cells_of(rule, kind):
    """Return the cells of an example; most rules need one."""
    return tuple(filter(None, (getattr(rule, kind), rule.then)))


def run_cells(*cells):
    """Return a report for each of *cells*, run in a watched shell of its own.

    An example may raise, or make torch warn: that may be what it shows.
    """
    shell = new_shell()
    watcher = notebook.load(shell)
    watcher.settings.report = "off"
    reports = []
    try:
        for cell in cells:
            run_cell(shell, cell)
            reports.append(aw.last_report())
    finally:
        notebook.unload(shell)
    assert list(watcher.fence.history) == []
    return reports


def run_cell(shell, cell):
    """Run *cell* as a user's, whose warnings are no errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shell.run_cell(cell, store_history=True)


@functools.cache
def reports_of(rule, kind):
    """Return the reports of an example. They are plain values: run once, read by many tests."""
    return run_cells(*cells_of(rule, kind))


def found_by(rule, reports):
    """Return the findings of *rule*."""
    return [f for report in reports for f in report.findings if f.code == rule.code]


def finding_of(rule):
    """Return the one finding of the bad example."""
    (finding,) = found_by(rule, reports_of(rule, "bad"))
    return finding


def beside(rule, reports):
    """Return what else is found in an example, as (code, source line), harmless notes left out.

    The family of `HARMLESS` notes has one finding a line: where its own rule has said
    something, a note at the same line of the same report is one too many.
    """
    left = []
    for report in reports:
        taken = {
            (f.cell, f.line)
            for f in report.findings
            if f.code == rule.code and rule.code.startswith("AGW1")
        }
        for finding in report.findings:
            is_note = finding.code in HARMLESS and finding.severity is Severity.NOTE
            may_stay = is_note and "data" in finding.source
            if finding.code != rule.code and not (
                may_stay and (finding.cell, finding.line) not in taken
            ):
                left.append((finding.code, finding.source.strip()))
    return left


@pytest.mark.parametrize("rule", RULES)
def test_a_code_is_agw_and_three_digits_of_a_family(rule):
    assert re.fullmatch(r"AGW[1-5]\d\d", rule.code)


@pytest.mark.parametrize("rule", RULES)
def test_a_name_says_the_problem_in_two_to_four_words_and_not_the_advice(rule):
    assert re.fullmatch(r"[a-z]+(-[a-z]+){1,3}", rule.name)
    assert not rule.name.startswith(_VERDICT_WORDS)


@pytest.mark.parametrize("field", ["code", "name", "summary"])
def test_no_two_rules_have_the_same(field):
    counts = Counter(getattr(rule, field) for rule in all_rules())
    assert [value for value, count in counts.items() if count > 1] == []


def test_the_public_mapping_has_every_rule_by_its_code_in_order():
    assert list(aw.RULES) == sorted(rule.code for rule in all_rules())
    assert all(aw.RULES[rule.code] is rule for rule in all_rules())


@pytest.mark.parametrize("rule", RULES)
def test_the_text_of_a_rule_is_whole_sentences_that_a_terminal_can_show(rule):
    assert isinstance(rule.severity, Severity)
    for text in (rule.summary, rule.why):
        assert text == text.strip()
        assert text[0].isupper() or text[0] in '`"'  # An error's words stand in quotes.
        assert text.endswith(".")
        assert text.count("`") % 2 == 0
    assert "\n" not in rule.summary
    assert max(map(len, rule.why.splitlines())) <= 100


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_where_its_claim_can_be_checked(rule):
    assert rule.sources
    for source in rule.sources:
        assert re.match(r"<https://[^ >]+>|`(torch|aten|c10|tools)/[^`]+`", source), source


@pytest.mark.parametrize("rule", RULES)
def test_examples_are_complete_cells_that_differ(rule):
    for example in (rule.bad, rule.good, rule.near_miss):
        assert "import torch" in example or "from torch" in example
    for cell in filter(None, (rule.bad, rule.good, rule.near_miss, rule.then)):
        assert cell.endswith("\n")
        assert not cell.startswith("\n")
        assert max(map(len, cell.splitlines())) <= 100
    assert len({rule.bad, rule.good, rule.near_miss}) == 3


@pytest.mark.parametrize("rule", RULES)
def test_the_bad_example_is_found_exactly_once_and_by_no_other_rule(rule):
    reports = reports_of(rule, "bad")
    (finding,) = found_by(rule, reports)
    assert (finding.name, finding.severity) == (rule.name, rule.severity)
    assert beside(rule, reports) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_second_cell_is_there_only_where_the_first_is_not_enough(rule):
    if rule.then:
        assert found_by(rule, reports_of(rule, "bad")[:1]) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_good_example_is_found_by_no_rule(rule):
    assert [place for report in reports_of(rule, "good") for place in places(report)] == []


@pytest.mark.parametrize("rule", RULES)
def test_the_near_miss_is_not_found_by_its_rule_and_is_harmless(rule):
    reports = reports_of(rule, "near_miss")
    assert found_by(rule, reports) == []
    assert beside(rule, reports) == []


@pytest.mark.parametrize(("rule", "kind"), EXAMPLES)
def test_an_example_does_the_same_without_us(rule, kind):
    shell = new_shell()
    for cell, report in zip(cells_of(rule, kind), reports_of(rule, kind), strict=True):
        plain = run_cell(shell, cell.removeprefix("%%gradcheck\n"))
        assert plain.error_before_exec is None
        error = plain.error_in_exec
        assert report.error == (None if error is None else (type(error).__name__, str(error)))


@pytest.mark.parametrize("rule", RULES)
def test_an_example_raises_only_where_an_error_is_explained(rule):
    errors = [report.error for report in reports_of(rule, "bad")]
    assert any(errors) is rule.code.startswith("AGW4")
    for kind in ("good", "near_miss"):
        assert [report.error for report in reports_of(rule, kind) if report.error] == []


@pytest.mark.parametrize("rule", RULES)
def test_a_headline_quotes_an_expression_of_the_users(rule):
    finding = finding_of(rule)
    quoted = re.findall(r"`([^`]+)`", finding.headline)
    users = [text for text in quoted if text in rule.bad + rule.then]
    assert any(map(is_expression, users)), finding.headline
    assert "\n" not in finding.headline
    assert not finding.headline.endswith(".")


def is_expression(text):
    """Whether *text* can stand alone; ``.data`` cannot."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("rule", RULES)
def test_a_finding_can_be_checked_and_says_why_and_what_to_type(rule):
    finding = finding_of(rule)
    assert finding.evidence
    assert all(label and value for label, value in finding.evidence)
    assert finding.why.endswith(".")
    assert finding.instead
    numbers = (report.cell for report in reports_of(rule, "bad"))
    cells = dict(zip(numbers, cells_of(rule, "bad"), strict=True))
    assert finding.source == cells[finding.cell].splitlines()[finding.line - 1]
    assert 0 <= finding.column < finding.end_column <= len(finding.source.encode())
    assert not finding.source[: finding.column + 1].isspace()


@pytest.mark.parametrize("rule", RULES)
def test_a_comment_on_the_line_silences_the_rule_there(rule):
    finding = finding_of(rule)
    numbers = [report.cell for report in reports_of(rule, "bad")]
    cells = list(cells_of(rule, "bad"))
    lines = cells[numbers.index(finding.cell)].splitlines()
    lines[finding.line - 1] += f"  # autogradwatch: ignore[{rule.code}]"
    cells[numbers.index(finding.cell)] = "\n".join(lines)
    reports = run_cells(*cells)
    assert found_by(rule, reports) == []
    assert beside(rule, reports) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_page_has_every_part_of_the_rule(rule):
    page = rule_page(rule)
    assert page.startswith(f"# {rule.code} {rule.name}\n")
    cells = (rule.bad, rule.then, rule.good, rule.near_miss)
    for part in (rule.summary, rule.why, *cells, *rule.sources):
        assert part in page
    assert f"Severity: {rule.severity}" in page
    assert f"ignore[{rule.code}]" in page
    assert page.count("```") % 2 == 0


@pytest.mark.parametrize("rule", RULES)
def test_explain_shows_the_page(rule, shell, watcher):
    shown = []
    shell.display_pub.publish = lambda data, metadata=None, **_: shown.append(data)
    shell.run_line_magic("autogradwatch", f"explain {rule.code.lower()}")
    (bundle,) = shown
    assert bundle["text/markdown"] == rule_page(rule)
    for word in (rule.code, rule.name, str(rule.severity)):
        assert word in bundle["text/plain"]


def test_explain_of_no_rule_names_some_that_there_are(shell, watcher):
    with pytest.raises(UsageError, match="AGW999") as caught:
        shell.run_line_magic("autogradwatch", "explain AGW999")
    assert any(rule.code in str(caught.value) for rule in all_rules())


def test_a_rule_that_finds_nothing_or_too_much_would_be_noticed(monkeypatch):
    rule = all_rules()[0]
    for check in (lambda record: [], lambda record: [*rule.check(record)] * 2):
        with_rules(monkeypatch, replace(rule, check=check))
        assert len(found_by(rule, run_cells(rule.bad))) != 1


def test_a_finding_that_is_no_harmless_note_at_a_data_line_would_be_noticed(monkeypatch):
    rule = all_rules()[0]
    (note,) = run_cells(rule.bad)[0].findings
    cell = "import torch\nw = torch.ones(2)\nw.data"
    beside_it = (
        replace(note, code="AGW201"),  # Of another rule.
        replace(note, code="AGW102", severity=Severity.WRONG),  # No note.
        replace(note, code="AGW102", source="y = 1"),  # Not at a line with .data.
        replace(note, code="AGW102"),  # The second of the family at a line.
    )
    for other in beside_it:
        both = [note, replace(other, line=note.line)]
        with_rules(monkeypatch, replace(rule, check=lambda record, found=both: found))
        assert len(beside(rule, run_cells(cell))) == 1
    elsewhere = [note, replace(note, code="AGW102", line=note.line + 1)]
    with_rules(monkeypatch, replace(rule, check=lambda record: elsewhere))
    assert beside(rule, run_cells(cell)) == []


def with_rules(monkeypatch, *rules):
    monkeypatch.setattr("ipy_autogradwatch.notebook.extension.all_rules", lambda: rules)
