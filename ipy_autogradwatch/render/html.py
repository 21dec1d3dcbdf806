"""A report as HTML that survives every front end.

Semantic tags carry it; text inherits its colour, so it is readable on any theme; severity
is a word. Colour appears in glyphs and underlines only, in tones with a contrast of 3:1 on
white and on black. The one ``<style>`` may be stripped (an untrusted notebook, GitHub)
without loss. No script, no svg, no id, nothing from elsewhere.
"""

from __future__ import annotations

from html import escape

from ipy_autogradwatch.model import Severity
from ipy_autogradwatch.render.outline import FindingBlock, GradientRow, Outline, Row

_TONES = {Severity.WRONG: "#e0443a", Severity.RISKY: "#b7791f", Severity.NOTE: "#3b82c4"}
_GLYPHS = {Severity.WRONG: "✖", Severity.RISKY: "▲", Severity.NOTE: "●"}
_LEFT = "style='text-align:left;vertical-align:top'"
_CODE = "style='white-space:pre-wrap'"

_STYLE = (
    ".agw{border-left:3px solid rgba(128,128,128,.45);padding:1px 0 1px 10px;margin:4px 0;"
    "max-width:76em;overflow-x:auto;line-height:1.4}"
    ".agw summary{cursor:pointer}"
    ".agw table{margin:4px 0!important;border-collapse:collapse;font-size:inherit}"
    ".agw td,.agw th{padding:2px 14px 2px 0!important;border:0!important;"
    "background:none!important}"
    ".agw tr{background:none!important}.agw th{font-weight:600}"
    ".agw code{white-space:pre-wrap;background:none;color:inherit}"
    ".agw p{margin:2px 0 2px 1.4em}"
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
    body = "".join(_finding(block) for block in outline.findings)
    body += _table([*outline.rows, *outline.backwards])
    body += _gradients(outline.gradients)
    body += "".join(f"<p><small>{escape(remark)}</small></p>" for remark in outline.remarks)
    return (
        f"<div class='agw'><style>{_STYLE}</style>"
        f"<details open><summary>{head}</summary>{body}</details></div>"
    )


def _finding(block: FindingBlock) -> str:
    is_note = block.severity is Severity.NOTE
    glyph = f"<span class='g' aria-hidden='true'>{_GLYPHS[block.severity]}</span>"
    word = f"<b>{block.severity}</b> {block.code}"
    head = f"{glyph} {word} &middot; {escape(block.place)}: {_marked(block.headline)}"
    source = ""
    if block.source:
        before, hit, after = (
            escape(block.source[: block.start]),
            escape(block.source[block.start : block.end]),
            escape(block.source[block.end :]),
        )
        source = f"<p><code {_CODE}>{before}<b><u>{hit}</u></b>{after}</code></p>"
    evidence = "".join(
        f"<tr><th scope='row' {_LEFT}>{escape(k)}</th><td {_LEFT}>{_marked(v)}</td></tr>"
        for k, v in block.evidence
    )
    table = f"<table><tbody>{evidence}</tbody></table>" if evidence else ""
    instead = ""
    if block.instead:
        instead = f"<p>Instead: <code {_CODE}>{escape(block.instead)}</code></p>"
    why = f"<p>{_marked(block.why)}</p>"
    if is_note:
        return (
            f"<div class='{block.severity}'><details><summary>{head}</summary>{source}{why}"
            f"{instead}{table}</details></div>"
        )
    folded = f"<details><summary>Evidence</summary>{table}</details>" if table else ""
    return f"<div class='{block.severity}'><p>{head}</p>{source}{why}{instead}{folded}</div>"


def _marked(text: str) -> str:
    """Return *text*, escaped, with what stands between backquotes as code."""
    pieces = escape(text).split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return "".join(
        f"<code {_CODE}>{piece}</code>" if index % 2 else piece
        for index, piece in enumerate(pieces)
    )


def _table(rows: list[Row]) -> str:
    if not rows:
        return ""
    lines: list[str] = []
    for row in rows:
        if row.sign == "backward":
            cells = ("", f"backward at {escape(row.name)}", escape(row.text))
        else:
            cells = (
                escape(row.sign.strip()),
                f"<code {_CODE}>{escape(row.name)}</code>",
                _folded(row) if row.items else escape(row.text),
            )
        lines.append("<tr>" + "".join(f"<td {_LEFT}>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def _folded(row: Row) -> str:
    items = "".join(
        f"<tr><td {_LEFT}><code {_CODE}>{escape(name)}</code></td><td {_LEFT}>{escape(text)}</td></tr>"
        for name, text in row.items
    )
    return (
        f"<details><summary>{escape(row.text)}</summary>"
        f"<table><tbody>{items}</tbody></table></details>"
    )


def _gradients(rows: tuple[GradientRow, ...]) -> str:
    if not rows:
        return ""
    titles = ("gradient", "norm", "max", "mean", "NaN/Inf", "")
    head = "".join(f"<th scope='col' {_LEFT}>{title}</th>" for title in titles)
    lines = []
    for row in rows:
        numbers = (row.norm, row.max_abs, row.mean_abs, row.nonfinite, row.change)
        name = f"<td {_LEFT}><code {_CODE}>{escape(row.name)}</code></td>"
        cells = "".join(f"<td {_LEFT}>{escape(number)}</td>" for number in numbers)
        lines.append(f"<tr>{name}{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
