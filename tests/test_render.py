"""A report's words and layout: short, aligned, escaped and bounded, in text and in HTML."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support import assert_golden

from ipy_autogradwatch.model import (
    BackwardCall,
    CellReport,
    Change,
    ChangeKind,
    Finding,
    GradChange,
    GradState,
    Severity,
    Site,
    SiteKind,
    Span,
    TensorState,
    WatcherFailure,
)
from ipy_autogradwatch.render import MIME_JSON, mimebundle, page_text

VOID = {"br", "hr", "img"}


def finding(source, hit, **fields):
    """Return a finding whose *source* line holds *hit*."""
    start = len(source[: source.index(hit)].encode(errors="surrogatepass"))
    usual = {
        "code": "AGW201",
        "name": "cut",
        "severity": Severity.WRONG,
        "cell": 3,
        "file": None,
        "line": 4,
        "column": start,
        "end_line": fields.get("line", 4),
        "end_column": start + len(hit.encode(errors="surrogatepass")),
        "headline": f"`{hit}` cuts the graph",
        "why": "What is computed from it gives no gradient, and no error says so.",
        "instead": "z = y",
        "evidence": (("tensor", "(1,), float32"), ("times in this cell", "1,000")),
        "source": source,
    }
    return Finding(**{**usual, **fields})


def note(source, hit, **fields):
    usual = {
        "code": "AGW101",
        "severity": Severity.NOTE,
        "headline": f"`{hit}` is only read",
        "why": "Harmless: looking at values freezes nothing and cuts nothing.",
        "instead": source.replace(".data", ".detach()").strip(),
    }
    return finding(source, hit, **{**usual, **fields})


def state(shape=(2, 3), *, leaf=True, grad=None, measured=False, **fields):
    if grad is not None:
        numbers = {"norm": 1.25, "max_abs": 1e-7, "mean_abs": 31.5, "nonfinite": 0}
        grad = GradState(grad, **numbers if measured else {})
    usual = {"dtype": "float32", "device": "cpu", "requires_grad": True, "is_leaf": leaf}
    usual |= {"grad_fn": None if leaf else "MulBackward0", "version": 0, "grad": grad}
    return TensorState(shape, **{**usual, **fields})


def backward(**fields):
    site = Site(SiteKind.BACKWARD, 3, None, Span(6, 0, 6, 15), "loss", "loss.backward()")
    usual = {"roots": ("loss",), "reaches": ("w",), "nodes": 3, "hits": 1, "walks": 1}
    return BackwardCall(site, **{**usual, "cut": False, "requires_grad": True, **fields})


def text(report, *, width=88, color=False, show="changes", max_findings=20):
    shown = bundle(report, width=width, color=color, show=show, max_findings=max_findings)
    return shown["text/plain"] + "\n"


def html(report, **options):
    return bundle(report, **options)["text/html"]


def bundle(report, *, width=88, color=False, show="changes", max_findings=20):
    return mimebundle(report, show=show, max_findings=max_findings, width=width, color=color)


FINDINGS = CellReport(
    3,
    findings=(
        finding("    z = y.detach()  # <script>alert(1)</script>", "y.detach()"),
        finding(
            "größe = '日本語', 模型.data.mul_(2)",
            "模型.data",
            severity=Severity.RISKY,
            code="AGW102",
            cell=1,
            headline="`模型` is written through `.data`",
        ),
        note("print(w.data)", "w.data", line=5, end_line=5),
        note("print(v.data)", "v.data", line=6, end_line=6),
    ),
)

MODEL = {f"model[{n}].weight": state(grad=GradChange.NEW) for n in range(11)}
CHANGES = CellReport(
    3,
    before={"old": state(), "t": state(requires_grad=False)},
    after={
        "w": state(grad=GradChange.REPLACED),
        "x": state((64, 10), requires_grad=False),
        "loss": state((), leaf=False, reaches=("w", *MODEL)),
        "t": state(requires_grad=True),
        "ids": state((5,), requires_grad=False, dtype="int64", device="cuda:0"),
        **MODEL,
        "model[11].bias": state((3,)),
    },
    changes=(
        Change("w", ChangeKind.CHANGED, grad=GradChange.REPLACED),
        Change("x", ChangeKind.ADDED),
        Change("loss", ChangeKind.ADDED),
        Change("t", ChangeKind.CHANGED, ("requires_grad False → True",)),
        Change("ids", ChangeKind.ADDED),
        *(Change(name, ChangeKind.CHANGED, (), GradChange.NEW) for name in MODEL),
        Change("old", ChangeKind.GONE),
    ),
    backwards=(backward(reaches=("w", *MODEL), hits=1500),),
)


@pytest.mark.parametrize("width", [60, 88, 140])
def test_findings_look_like_this(width, request):
    assert_golden(text(FINDINGS, width=width), f"findings-{width}.txt", request)


@pytest.mark.parametrize("width", [60, 88])
def test_changes_look_like_this(width, request):
    assert_golden(text(CHANGES, width=width), f"changes-{width}.txt", request)


def test_findings_look_like_this_in_html(request):
    assert_golden(html(FINDINGS), "findings.html", request)


def test_changes_look_like_this_in_html(request):
    assert_golden(html(CHANGES), "changes.html", request)


def test_a_gradcheck_shows_every_tensor_and_the_size_of_every_gradient(request):
    bad = GradState(GradChange.NEW, norm=float("nan"), max_abs=1.0, mean_abs=0.5, nonfinite=2)
    after = {
        "w": state(grad=GradChange.NEW, measured=True),
        "b": state(),
        "x": state((64, 10), requires_grad=False),
        "bad": replace(state(), grad=bad),
    }
    report = CellReport(3, after=after, gradcheck=True, backwards=(backward(),))
    assert_golden(text(report), "gradcheck.txt", request)
    assert "<b>2</b>" in html(report)


def test_nothing_to_say_is_no_report():
    assert bundle(CellReport(3)) is None
    assert bundle(CellReport(3, after={"w": state()})) is None
    assert bundle(CellReport(3, after={"w": state()}), show="always") is not None


def test_new_tensors_without_a_graph_are_one_quiet_line():
    plain = {name: state((2,), requires_grad=False) for name in "abcdefgh"}
    changes = tuple(Change(name, ChangeKind.ADDED) for name in plain)
    line = "a (2,), b (2,), c (2,), d (2,), e (2,), f (2,) and 2 more"
    report = CellReport(3, after=plain, changes=changes)
    assert text(report, width=120) == f"autogradwatch: new, no graph: {line}\n"
    assert "<details" not in html(report)


@pytest.mark.parametrize(("show", "sees"), [("findings", False), ("changes", True)])
def test_changes_are_shown_on_request(show, sees):
    both = replace(CHANGES, findings=FINDINGS.findings)
    assert ("gone" in text(both, show=show)) is sees


def test_what_is_left_out_is_counted():
    notes = tuple(note("print(w.data)", "w.data", line=n, end_line=n) for n in range(30))
    shown = bundle(CellReport(3, notes), max_findings=20)
    assert "… and 10 more findings" in shown["text/plain"]
    assert "… and 10 more findings" in shown["text/html"]
    assert len(shown[MIME_JSON]["findings"]) == 20


def test_a_failure_of_ours_is_one_line():
    report = CellReport(3, failures=(WatcherFailure("diagnose", "ValueError: no\x1b[0m", "long"),))
    line = r"    diagnose failed (ValueError: no\x1b[0m); this report is incomplete"
    assert text(report) == f"autogradwatch\n{line}\n"


def test_a_leaf_without_gradient_is_named_when_a_backward_ran():
    after = {"w": state(), "far": state(grad=GradChange.UNCHANGED)}
    ran = CellReport(3, after=after, backwards=(backward(reaches=(), requires_grad=False),))
    assert "grad still None: w\n" in text(ran)
    assert bundle(CellReport(3, after=after)) is None


def test_a_leaf_from_another_experiment_is_not_named():
    after = {"w": state(grad=GradChange.NEW), "stale": state()}
    changes = (Change("w", ChangeKind.CHANGED, (), GradChange.NEW),)
    report = CellReport(3, after=after, changes=changes, backwards=(backward(),))
    assert "still None" not in text(report)


# Places and carets.


@pytest.mark.parametrize(
    "line",
    [
        "z = y.data",
        "    größe + y.data  # ü",
        "日本語 = y.data",
        "s = '😀👍🏽', y.data",
        "\ts\t= y.data",
        "e\u0301 = 'e\u0301', y.data",
        "s = 'a\u202eb', y.data",
        "s = '\x07\x1b[31m', y.data",
        "a = [" + "1, " * 5000 + "y.data, " + "2, " * 5000 + "]",
        "日" * 5000 + "y.data",
        "y.data" + "日" * 5000,
    ],
)
@pytest.mark.parametrize("width", [40, 60, 88, 140])
def test_carets_stand_under_the_word(line, width):
    shown = text(CellReport(3, (finding(line, "y.data"),)), width=width).splitlines()
    (carets,) = [number for number, row in enumerate(shown) if set(row.strip()) == {"^"}]
    source, start = shown[carets - 1], cell_len(shown[carets].replace("^", ""))
    assert cell_len(source) <= width
    assert shown[carets].count("^") == len("y.data")
    assert _from_cell(source, start).startswith("y.data")


def _from_cell(line, cells):
    """Return what of *line* stands at and after a column on screen."""
    for index in range(len(line) + 1):
        if cell_len(line[:index]) == cells and (index == len(line) or cell_len(line[index])):
            return line[index:]
    raise AssertionError("a wide character straddles the column")


def test_a_span_over_several_lines_is_underlined_to_the_end_of_its_first(request):
    several = finding("z = (y", "y", end_line=6, end_column=3)
    lines = text(CellReport(3, (several,))).splitlines()
    assert lines[2:4] == ["    z = (y", "         ^"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({}, "line 4"),
        ({"cell": 1}, "cell 1, line 4"),
        ({"cell": None, "file": "other.ipynb"}, "other.ipynb, line 4"),
    ],
)
def test_a_place_names_the_cell_only_when_it_is_another(fields, place):
    report = CellReport(3, (finding("z = y.data", "y.data", **fields),))
    assert f"wrong AGW201  {place}: " in text(report)
    assert f"AGW201 &middot; {place}: " in html(report)


def test_of_several_findings_each_note_is_one_line():
    lines = text(FINDINGS).splitlines()
    assert lines[-3:] == [
        "  note AGW101  line 5: `w.data` is only read; instead: print(w.detach())",
        "  note AGW101  line 6: `v.data` is only read; instead: print(v.detach())",
        "    Harmless: looking at values freezes nothing and cuts nothing.",
    ]
    assert html(FINDINGS).count("Harmless") == 2  # Each is folded on its own.


def test_a_suggestion_that_does_not_fit_beside_its_note_waits_until_it_is_asked_for():
    shown = text(FINDINGS, width=60)
    assert "  note AGW101  line 5: `w.data` is only read\n" in shown
    assert "print(w.detach())" not in shown
    assert "    instead: print(w.detach())\n" in text(FINDINGS, width=60, show="always")


def test_notes_that_differ_say_where_their_reasons_are():
    differing = note("v.data += 1", "v.data", why="A write.")
    report = CellReport(3, (note("print(w.data)", "w.data"), differing))
    assert "Harmless" not in text(report)
    assert "%autogradwatch report says why" in text(report)
    assert "Harmless" in text(report, show="always")
    assert "A write." in text(report, show="always")


def test_a_note_that_stands_alone_is_explained():
    shown = text(CellReport(3, (note("print(w.data)", "w.data"),)))
    assert "    Harmless: looking at values" in shown
    assert "    instead: print(w.detach())" in shown


def test_what_explains_the_error_stands_first_under_the_traceback():
    silent = finding("w.data.mul_(2)", "w.data", code="AGW105", line=2, end_line=2)
    loud = finding("loss.backward()", "loss.backward()", code="AGW404", line=9, end_line=9)
    report = CellReport(3, (silent, loud), error=("RuntimeError", "a second time"))
    shown = bundle(report, max_findings=1)
    assert "AGW404" in shown["text/plain"].splitlines()[1]
    assert "AGW105" not in shown["text/plain"]
    assert shown["text/html"].index("AGW404") > 0
    assert [f["code"] for f in shown[MIME_JSON]["findings"]] == ["AGW404"]


def test_a_root_without_a_graph_is_called_so_in_a_few_words():
    ran = CellReport(3, backwards=(backward(roots=("z",), reaches=(), requires_grad=False),))
    assert text(ran) == "autogradwatch\n    backward at line 6: from z, which has no graph\n"


def test_the_roots_of_a_loop_go_by_the_expression_in_the_source():
    kept = backward(roots=("losses[0]", "losses[1]"), hits=2)
    assert "from loss to w (2 times)" in text(CellReport(3, backwards=(kept,)))
    once = backward(roots=("a", "b"))
    assert "from a, b to w" in text(CellReport(3, backwards=(once,)))


@pytest.mark.parametrize("width", range(40, 100))
def test_a_short_piece_of_code_is_on_one_line(width):
    code = "`(a * 2).detach()`"
    words = f"z has no graph: it was lost at {code} and so on"
    fields = {"headline": words, "why": words, "evidence": (("it was", words),)}
    shown = text(CellReport(3, (finding("z = y", "y", **fields),)), width=width)
    assert shown.count(code) == 3
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize(
    ("instead", "is_code"),
    [
        ("with torch.no_grad(): w.mul_(…)    # in place", True),
        (r"print(re.sub('\d', '', w.detach()))", True),
        ("leave .detach() out", False),
        ("(" * 250, False),
        ("x = '\0'", False),
    ],
)
def test_what_to_type_is_set_as_code_and_advice_as_words(instead, is_code):
    shown = html(CellReport(3, (finding("z = y", "y", instead=instead),)))
    assert ("Instead: <code" in shown) is is_code


def test_a_long_piece_of_code_is_broken_like_other_text():
    words = f"lost at `{'alpha + ' * 30}b` here"
    shown = text(CellReport(3, (finding("z = y", "y", headline=words),)), width=60)
    assert max(map(len, shown.splitlines())) <= 60
    assert " ".join(shown.split()).count(words) == 1


@pytest.mark.parametrize("width", [80, 88])
def test_a_name_that_no_space_could_break_is_not_broken(width):
    name = 'opt.param_groups[0]["params"][2]'
    report = CellReport(3, after={name: state()}, changes=(Change(name, ChangeKind.ADDED),))
    assert text(report, width=width).splitlines()[1].startswith(f"  + {name}  (2, 3)  ")


# Escapes and bounds.

NASTY = "<img src=x onerror=alert(1)>&amp;'\"\x1b[31m\x00\x9b\u202e\u2066\u200f\u2028\ud800`"


def nasty_report(text_of_the_user):
    t = text_of_the_user
    everywhere = finding(
        f"{t}w.data{t}",
        "w.data",
        headline=t,
        why=t,
        instead=t,
        evidence=((t, t),),
        file=t,
        cell=None,
    )
    name = f"d[{t!r}]"
    return CellReport(
        3,
        (everywhere, note("print(w.data)", "w.data", headline=t, why=t, instead=t)),
        after={name: state(), t: state(leaf=False, reaches=(name,), grad_fn=t, dtype=t)},
        changes=(Change(name, ChangeKind.ADDED), Change(t, ChangeKind.ADDED, (t,))),
        backwards=(backward(roots=(t,), reaches=(name, t)),),
        failures=(WatcherFailure(t, t, t),),
        cuts=(t,),
    )


def test_text_of_the_user_is_never_markup_nor_control():
    shown = bundle(nasty_report(NASTY))
    for form in ("text/plain", "text/html"):
        assert _unseen(shown[form]) == set()
    assert _unseen(NASTY) == {
        "\x1b",
        "\x00",
        "\x9b",
        "\u202e",
        "\u2066",
        "\u200f",
        "\u2028",
        "\ud800",
    }
    tags = _tags(shown["text/html"])
    assert tags <= {
        *("div", "style", "details", "summary", "b", "u", "code", "p", "small", "span"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert "img" in _tags(NASTY)
    assert json.dumps(shown[MIME_JSON], ensure_ascii=False).encode()


@given(st.text(max_size=60))
def test_whatever_the_user_writes_html_stays_balanced(anything):
    assert _tags(html(nasty_report(anything)))


@pytest.mark.parametrize("char", ["x", "日", "\u202e", "`", "<", "\x1b", "e\u0301"])
def test_a_report_of_endless_lines_is_bounded(char):
    shown = bundle(nasty_report(char * 10_000))
    assert len(shown["text/plain"]) < 20_000
    assert len(shown["text/html"]) < 60_000
    assert len(json.dumps(shown[MIME_JSON], ensure_ascii=False)) < 10_000


@pytest.mark.parametrize("width", [40, 60, 88])
def test_no_line_is_wider_than_the_terminal(width):
    for report in (FINDINGS, CHANGES, nasty_report("日本 " * 50)):
        assert max(map(cell_len, text(report, width=width).splitlines())) <= width


def test_a_large_namespace_is_bounded_and_counted():
    many = {f"w{n}": state() for n in range(500)}
    lots = {f"d[{n}]": state() for n in range(500)}
    changes = tuple(Change(name, ChangeKind.ADDED) for name in (*many, *lots))
    report = CellReport(3, after={**many, **lots}, changes=changes)
    assert len(text(report).splitlines()) < 30
    assert "… and 481 more" in text(report)
    folded = CellReport(3, after=lots, changes=changes[500:])
    assert "… and 400 more" in html(folded)


def test_many_measured_gradients_are_bounded_and_counted():
    after = {f"m.p{n}": state(grad=GradChange.NEW, measured=True) for n in range(150)}
    report = CellReport(3, after=after, gradcheck=True)
    assert "… and 50 more gradients" in text(report)
    assert "<summary>100 gradients</summary>" in html(report)


def test_colour_is_there_when_asked_for_and_only_then():
    assert "\x1b[1;31mwrong AGW201\x1b[0m" in text(FINDINGS, color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", text(FINDINGS, color=True)) == text(FINDINGS)
    assert "\x1b" not in text(FINDINGS)


def test_html_has_no_script_no_ids_and_nothing_from_elsewhere():
    for report in (FINDINGS, CHANGES):
        assert not re.search(r"<script|<svg|<link|\bid=|\bon\w+=|https?:|url\(", html(report))
    assert re.search(r"\bon\w+=", NASTY)


def test_a_page_of_documentation_starts_with_its_title():
    page = page_text("# AGW101 data-read\n\nText with `code`.\n", width=60, color=False)
    assert page == "AGW101 data-read\n\nText with code."


def _unseen(shown):
    return {char for char in shown if char != "\n" and not char.isprintable() and char != "\u3000"}


def _tags(page):
    """Return the names of the tags in *page*, which must be balanced."""
    seen, is_open = set(), []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.add(tag)
            if tag not in VOID:
                is_open.append(tag)

        def handle_endtag(self, tag):
            assert is_open.pop() == tag

    reader = Reader()
    reader.feed(page)
    reader.close()
    assert is_open == []
    return seen
