"""Every rule keeps what it promises: a code, a name, examples that run, and a page.

Nothing here names a rule: one more module in ``ipy_autogradwatch/rules`` is one more row in
each of these tests.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

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
_VERDICT_WORDS = ("use", "avoid", "prefer", "do-not", "dont", "should")


def one_cell(source):
    """Return the report of *source*, run as the first cell of a watched shell of its own.

    An example may raise: what it shows may be an error.
    """
    shell = new_shell()
    watcher = notebook.load(shell)
    watcher.settings.report = "off"
    try:
        shell.run_cell(source, store_history=True)
    finally:
        notebook.unload(shell)
    assert list(watcher.fence.history) == []
    return aw.last_report()


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
        assert text[0].isupper() or text[0] == "`"
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
        assert example.endswith("\n")
        assert not example.startswith("\n")
        assert "import torch" in example or "from torch" in example
        assert max(map(len, example.splitlines())) <= 100
    assert len({rule.bad, rule.good, rule.near_miss}) == 3


@pytest.mark.parametrize("rule", RULES)
def test_the_bad_example_is_found_exactly_once_and_by_no_other_rule(rule):
    report = one_cell(rule.bad)
    assert [code for code, _ in places(report)] == [rule.code]
    (finding,) = report.findings
    assert (finding.name, finding.severity) == (rule.name, rule.severity)


@pytest.mark.parametrize("rule", RULES)
def test_the_good_example_is_found_by_no_rule(rule):
    assert places(one_cell(rule.good)) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_near_miss_is_not_found_by_its_rule(rule):
    assert rule.code not in [code for code, _ in places(one_cell(rule.near_miss))]


@pytest.mark.parametrize(("rule", "kind"), EXAMPLES)
def test_an_example_does_the_same_without_us(rule, kind):
    shell = new_shell()
    plain = shell.run_cell(getattr(rule, kind), store_history=True)
    assert plain.error_before_exec is None
    report = one_cell(getattr(rule, kind))
    error = plain.error_in_exec
    assert report.error == (None if error is None else (type(error).__name__, str(error)))


@pytest.mark.parametrize("rule", RULES)
def test_a_headline_quotes_an_expression_of_the_users(rule):
    (finding,) = one_cell(rule.bad).findings
    quoted = re.findall(r"`([^`]+)`", finding.headline)
    assert any(text in rule.bad and is_expression(text) for text in quoted), finding.headline
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
    (finding,) = one_cell(rule.bad).findings
    assert finding.evidence
    assert all(label and value for label, value in finding.evidence)
    assert finding.why.endswith(".")
    assert finding.instead
    assert finding.source == rule.bad.splitlines()[finding.line - 1]
    assert 0 <= finding.column < len(finding.source)


@pytest.mark.parametrize("rule", RULES)
def test_a_comment_on_the_line_silences_the_rule_there(rule):
    (finding,) = one_cell(rule.bad).findings
    lines = rule.bad.splitlines()
    lines[finding.line - 1] += f"  # autogradwatch: ignore[{rule.code}]"
    assert places(one_cell("\n".join(lines))) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_page_has_every_part_of_the_rule(rule):
    page = rule_page(rule)
    assert page.startswith(f"# {rule.code} {rule.name}\n")
    for part in (rule.summary, rule.why, rule.bad, rule.good, rule.near_miss, *rule.sources):
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
        broken = type(rule)(**{**_fields(rule), "check": check})
        monkeypatch.setattr("ipy_autogradwatch.notebook.extension.all_rules", lambda b=broken: (b,))
        assert [code for code, _ in places(one_cell(rule.bad))] != [rule.code]


def _fields(rule):
    return {name: getattr(rule, name) for name in type(rule).__dataclass_fields__}
