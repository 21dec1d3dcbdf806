"""A browser shows the report as meant; a front end that strips styles loses nothing needed."""

from __future__ import annotations

import functools
import html.parser
import re

import pytest
from notebooks import script
from support import GOLDEN

pictures = script("make_pictures")
REPORT = GOLDEN / "findings.html"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(pictures.chromium() is None, reason="no Chromium on PATH"),
]


def test_the_page_shows_findings_source_and_changes():
    text = _shown(REPORT.read_text(encoding="utf-8"))
    for words in ("wrong AGW201", "risky AGW102", "note AGW101", "z = y.detach()", "Instead:"):
        assert words in text
    assert "<script>alert(1)</script>" in text, "text of the user is shown, not run"


def test_text_of_the_user_runs_no_script():
    assert "hijacked" not in _title(REPORT.read_text(encoding="utf-8"))
    # The check can fail: a script that is not escaped does run.
    assert _title("<script>document.title = 'hijacked'</script>") == "hijacked"


def test_a_note_is_folded_and_what_is_wrong_stands_open():
    visible = _visible(REPORT.read_text(encoding="utf-8"))
    assert "z = y.detach()" in visible
    assert "w.data is only read" in visible
    assert "print(w.detach())" not in visible


def test_a_sanitised_report_says_the_same():
    dirty = REPORT.read_text(encoding="utf-8")
    clean = _sanitised(dirty)
    assert "<style" not in clean
    assert "class=" not in clean
    assert _words(_shown(clean)) == _words(_shown(dirty))
    assert "text-align:left" in clean


def _shown(body):
    """Return the text of a page with *body*, as the browser has it."""
    return _text(_dom(body))


def _title(body):
    return re.search(r"<title>(.*?)</title>", _dom(body), re.S)[1]


def _visible(body):
    """Return the text that can be seen without opening anything."""
    show = "<script>document.title = document.getElementById('report').innerText</script>"
    page = f"<div id='report'>{body}</div>{show}"
    return html.unescape(_title(page))


@functools.cache
def _dom(body):
    page = f"<!doctype html><meta charset='utf-8'><title>none</title><body>{body}</body>"
    return pictures.browse(page, ["--dump-dom"])


def _sanitised(report):
    """Return *report* as JupyterLab shows it in a notebook that is not trusted."""
    report = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", report, flags=re.S)
    return re.sub(r" (class|id|role|aria-\w+)='[^']*'", "", report)


def _text(page):
    reader = _Reader()
    reader.feed(page)
    return "".join(reader.pieces)


def _words(text):
    return text.split()


class _Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.pieces = []
        self._hidden = 0

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in ("style", "title", "script")
        self.pieces.append(" " if tag in ("td", "th", "p", "div") else "")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("style", "title", "script")

    def handle_data(self, data):
        if not self._hidden:
            self.pieces.append(data)
