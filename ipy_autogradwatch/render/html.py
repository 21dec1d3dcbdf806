"""A report as HTML that survives every front end.

Semantic tags carry it; text inherits its colour, so it is readable on any theme; severity
is a word. Colour appears in glyphs and underlines only, in tones with a contrast of 3:1 on
white and on black. The one ``<style>`` may be stripped (an untrusted notebook, GitHub)
without loss. No script, no svg, no id, nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ipy_autogradwatch.model import Severity
from ipy_autogradwatch.render.outline import (
    FindingBlock,
    GradientRow,
    Outline,
    Row,
    VerdictGroup,
    VerdictRow,
)

_TONES = {Severity.WRONG: "#e0443a", Severity.RISKY: "#b7791f", Severity.NOTE: "#3b82c4"}
_GLYPHS = {Severity.WRONG: "✖", Severity.RISKY: "▲", Severity.NOTE: "●"}
_LEFT = "style='text-align:left;vertical-align:top'"
_RIGHT = "style='text-align:right;vertical-align:top'"
_WORD = "style='text-align:left;vertical-align:top;white-space:nowrap'"
_CODE = "style='white-space:pre-wrap'"
_ONE_LINE = 115
"""A note's reason stands beside its headline where both together are no longer."""
_MANY_GRADIENTS = 24

_STYLE = (
    ".agw{border-left:3px solid rgba(128,128,128,.45);padding:1px 0 1px 10px;margin:4px 0;"
    "max-width:76em;overflow-x:auto;line-height:1.45}"
    ".agw summary{cursor:pointer}.agw small{font-size:.9em;opacity:.8}"
    ".agw table{margin:4px 0!important;border-collapse:collapse;font-size:inherit}"
    ".agw td,.agw th{padding:1px 14px 1px 0!important;border:0!important;"
    "background:none!important;max-width:60em!important;font-variant-numeric:tabular-nums}"
    ".agw tr{background:none!important}.agw th{font-weight:600}"
    ".agw code{white-space:pre-wrap;overflow-wrap:anywhere;background:none!important;"
    "color:inherit;unicode-bidi:isolate;padding:0!important;font-size:.95em}"
    ".agw p{margin:2px 0 2px 1.4em}"
    ".agw .note table,.agw .note details details,.agw .wrong>details,.agw .risky>details"
    "{margin-left:1.4em!important}.agw tbody th{font-weight:normal;opacity:.8}"
    ".agw .wrong,.agw .risky{margin:6px 0}.agw .wrong>p:first-child,.agw .risky>p:first-child"
    "{margin-left:0}"
    ".agw u{text-decoration:underline wavy 1.5px;text-underline-offset:3px}"
    + "".join(
        f".agw .{severity} u{{text-decoration-color:{tone}}}.agw .{severity} .g{{color:{tone}}}"
        for severity, tone in _TONES.items()
    )
    + "@media (forced-colors:active){.agw u{text-decoration-style:double}}"
)


def as_html(outline: Outline) -> str:
    """Return *outline* as one ``<div>``."""
    head = "<b>autogradwatch</b>" + (f": {escape(outline.title)}" if outline.title else "")
    if not outline.is_one_line:
        body = "".join(map(_finding, outline.findings))
        body += "".join(map(_verdicts, outline.verdicts))
        body += _changes(outline.rows)
        body += "".join(f"<p>{escape(sentence)}</p>" for sentence in outline.sentences)
        body += _gradients(outline.gradients)
        body += "".join(f"<p><small>{escape(remark)}</small></p>" for remark in outline.remarks)
        head = f"<details open><summary>{head}</summary>{body}</details>"
    return f"<div class='agw'><style>{_STYLE}</style>{head}</div>"


def _finding(block: FindingBlock) -> str:
    glyph = f"<span class='g' aria-hidden='true'>{_GLYPHS[block.severity]}</span>"
    head = (
        f"{glyph} <b>{block.severity}</b> {block.code} &middot; {escape(block.place)}: "
        f"{_marked(block.headline)}"
    )
    why_in_head = block.is_folded and len(block.headline) + len(block.why) <= _ONE_LINE
    if block.why and why_in_head:
        head += f" <small>&mdash; {_marked(block.why)}</small>"
    source = ""
    if block.hit:
        before, hit, after = map(escape, (block.before, block.hit, block.after))
        source = f"<p><code {_CODE}>{before}<b><u>{hit}</u></b>{after}</code></p>"
    why = f"<p>{_marked(block.why)}</p>" if block.why and not why_in_head else ""
    instead = ""
    if block.instead:
        words = _code(block.instead) if block.instead_is_code else _marked(block.instead)
        instead = f"<p>Instead: {words}</p>"
    evidence = "".join(
        f"<tr>{_cell(escape(label), 'th')}{_cell(_marked(value))}</tr>"
        for label, value in block.evidence
    )
    table = f"<table><tbody>{evidence}</tbody></table>" if evidence else ""
    if block.is_folded:
        body = f"<details><summary>{head}</summary>{source}{why}{instead}{table}</details>"
    else:
        folded = f"<details><summary>Evidence</summary>{table}</details>" if table else ""
        body = f"<p>{head}</p>{source}{why}{instead}{folded}"
    return f"<div class='{block.severity}'>{body}</div>"


def _verdicts(group: VerdictGroup) -> str:
    table = _verdict_table(group.rows)
    if len(group.folded) > 1:
        inner = _verdict_table(group.folded)
        table += (
            f"<details><summary>{len(group.folded)} right, one by one</summary>{inner}</details>"
        )
    return f"<p><b>{escape(group.title)}</b></p>{table}"


def _verdict_table(rows: tuple[VerdictRow, ...]) -> str:
    with_numbers = any(row.error or row.norms for row in rows)
    titles = [("verdict", _LEFT), ("leaf", _LEFT)]
    if with_numbers:
        titles += [("relative error", _RIGHT), ("norm: delivered / true", _RIGHT)]
    head = "".join(_cell(title, "th", style) for title, style in [*titles, ("", _LEFT)])
    lines = []
    for row in rows:
        numbers = _cells((escape(row.error), escape(row.norms))) if with_numbers else ""
        cells = _cell(_verdict_word(row), "td", _WORD) + _cell(_code(row.leaf))
        lines.append(f"<tr>{cells}{numbers}{_cell(_marked(row.note))}</tr>")
    body = "".join(lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _verdict_word(row: VerdictRow) -> str:
    word = f"<span aria-hidden='true'>{row.glyph}</span> {escape(row.word)}"
    return f"<b>{word}</b>" if row.verdict == "wrong" else word


def _changes(rows: tuple[Row, ...]) -> str:
    if not rows:
        return ""
    with_shape = any(row.shape for row in rows)
    lines: list[str] = []
    for row in rows:
        cells = [_cell(escape(row.sign.strip())), _cell(_code(row.name))]
        cells += [_cell(escape(row.shape))] if with_shape else []
        cells.append(_cell(_folded(row) if row.items else escape(row.text)))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def _folded(row: Row) -> str:
    items = "".join(
        f"<tr>{_cell(_code(name))}{_cell(escape(text))}</tr>" for name, text in row.items
    )
    return (
        f"<details><summary>{escape(row.text)}</summary>"
        f"<table><tbody>{items}</tbody></table></details>"
    )


def _gradients(rows: tuple[GradientRow, ...]) -> str:
    if not rows:
        return ""
    head = _cell("gradient", "th")
    head += "".join(_cell(title, "th", _RIGHT) for title in ("norm", "max", "mean", "NaN/Inf"))
    lines = "".join(_gradient(row) for row in rows)
    table = f"<table><thead><tr>{head}{_cell('', 'th')}</tr></thead><tbody>{lines}</tbody></table>"
    if len(rows) <= _MANY_GRADIENTS:
        return table
    return f"<details><summary>{len(rows)} gradients</summary>{table}</details>"


def _gradient(row: GradientRow) -> str:
    bad = f"<b>{escape(row.nonfinite)}</b>" if row.nonfinite != "0" else "0"
    numbers = (escape(row.norm), escape(row.max_abs), escape(row.mean_abs), bad)
    return f"<tr>{_cell(_code(row.name))}{_cells(numbers)}{_cell(escape(row.change))}</tr>"


def _cells(contents: Iterable[str]) -> str:
    return "".join(_cell(content, "td", _RIGHT) for content in contents)


def _cell(content: str, tag: str = "td", style: str = _LEFT) -> str:
    return f"<{tag} {style}>{content}</{tag}>"


def _code(text: str) -> str:
    return f"<code {_CODE}>{escape(text)}</code>"


def _marked(text: str) -> str:
    """Return *text*, escaped, with what stands between backquotes as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return "".join(
        _code(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )
