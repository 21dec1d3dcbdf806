"""Verdicts are shown worst first, in words, escaped, folded where all is well, and bounded."""

from __future__ import annotations

import json

import pytest

from ipy_autogradwatch.model import CellReport, GradientVerdict
from ipy_autogradwatch.render import mimebundle


def shown(*verdicts, show="changes", width=88):
    report = CellReport(3, verdicts=tuple(verdicts), gradcheck=True)
    return mimebundle(report, show=show, max_findings=20, width=width, color=False)


def verdict(leaf, word="right", **fields):
    return GradientVerdict(leaf, "loss", word, backward=(3, 7), **fields)


def test_the_worst_stands_first_and_what_is_right_takes_one_line():
    text = shown(
        verdict("a"),
        verdict("b", "by_design", reason="stopped at line 2"),
        verdict("c", "wrong", relative_error=0.5, autograd_norm=1.0, true_norm=2.0),
        verdict("d"),
    )["text/plain"]
    lines = [line.strip() for line in text.splitlines()]
    assert lines[1] == "gradients of loss (backward at line 7): 1 wrong, 1 by design, 2 right"
    assert [line.split("  ")[0] for line in lines[2:]] == ["✖ wrong", "◐ by design", "✔ right"]
    assert "c (off by 5.0e-01; norm 1 / 2)" in text
    assert "✔ right  a, d" in text


def test_full_has_a_line_for_each_leaf():
    text = shown(verdict("a"), verdict("b"), show="full")["text/plain"]
    assert [line.strip() for line in text.splitlines()][2:4] == ["✔ right  a", "✔ right  b"]


def test_each_backward_has_a_group_of_its_own():
    other = GradientVerdict("a", "total", "right", backward=(2, 1))
    text = shown(verdict("a"), other)["text/plain"]
    assert "gradients of loss (backward at line 7)" in text
    assert "gradients of total (backward at line 1 of cell 2)" in text


def test_names_and_reasons_are_escaped():
    bad = verdict("<b>\x1b[31mx", "undecided", reason="<script>alert(1)</script>")
    bundle = shown(bad)
    assert "<script>" not in bundle["text/html"]
    assert "<b>\x1b" not in bundle["text/html"]
    assert "\x1b" not in bundle["text/plain"]


def test_a_thousand_leaves_are_bounded():
    many = [verdict(f"p{i}", "undecided", reason="because") for i in range(1000)]
    bundle = shown(*many)
    assert "… and 960 more leaves" in bundle["text/plain"] or "960 more" in bundle["text/plain"]
    assert len(bundle["text/html"]) < 40_000


@pytest.mark.parametrize("width", [40, 60, 88, 140])
def test_no_line_is_wider_than_it_may_be(width):
    row = verdict("model.layers[10].attention.weight", "wrong", reason="because " * 30)
    assert max(map(len, shown(row, width=width)["text/plain"].splitlines())) <= width


def test_a_report_with_verdicts_is_json():
    report = CellReport(3, verdicts=(verdict("a", relative_error=float("nan")),))
    assert json.loads(json.dumps(report.to_dict()))["verdicts"][0]["relative_error"] == "nan"
