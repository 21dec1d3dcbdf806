"""A report as text: compiler-style blocks, for terminals and for ``text/plain``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ipy_autogradwatch.model import Severity
from ipy_autogradwatch.render.outline import (
    FindingBlock,
    GradientRow,
    Outline,
    Row,
    VerdictGroup,
)
from ipy_autogradwatch.render.words import window

_STYLE = {Severity.WRONG: "bold red", Severity.RISKY: "bold yellow", Severity.NOTE: "cyan"}
_VERDICT_STYLE = {
    "wrong": "bold red",
    "undecided": "yellow",
    "vacuous": "yellow",
    "by_design": "cyan",
    "right": "green",
}
_SIGN_STYLE = {"+": "green", "-": "dim"}

# Stands for a space at which rich must not break a line; it breaks at every kind of blank.
_TIE = "\U0010fffd"
_LONGEST_TIED = 40


def as_text(outline: Outline, *, width: int, color: bool) -> str:
    """Return *outline* as lines of at most *width* columns, with ANSI colours if *color*."""
    return _print(Group(*_layout(outline, width)), width=width, color=color)


def page_text(markdown: str, *, width: int, color: bool) -> str:
    """Return a page of documentation for the terminal."""
    # rich centres the title between blank lines.
    title, _, rest = markdown.partition("\n")
    page = Group(Text(title.lstrip("# "), "bold"), Text(""), Markdown(rest.lstrip()))
    return re.sub(r"\n{3,}", "\n\n", _print(page, width=width, color=color))


def _print(renderable: RenderableType, *, width: int, color: bool) -> str:
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=color,
        force_jupyter=False,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        emoji=False,
        markup=False,
        highlight=False,
    )
    console.print(renderable)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue().replace(_TIE, " ")
    return "\n".join(line.rstrip() for line in shown.split("\n")).rstrip()


def _tied(text: str) -> Text:
    """Return *text* with its short pieces of code unbroken."""
    pieces = text.split("`")
    for index in range(1, len(pieces) - 1, 2):
        if len(pieces[index]) <= _LONGEST_TIED:
            pieces[index] = pieces[index].replace(" ", _TIE)
    return Text("`".join(pieces))


def _layout(outline: Outline, width: int) -> Iterator[RenderableType]:
    title = f": {outline.title}" if outline.title else ""
    yield Text.assemble(("autogradwatch", "bold"), title)
    for block in outline.findings:
        is_brief = outline.brief and block.is_folded
        yield _indented(2, _note(block, width - 2) if is_brief else _finding(block, width))
    if outline.about_notes:
        yield _indented(4, _tied(outline.about_notes))
    for group in outline.verdicts:
        yield _indented(2, _verdicts(group))
    if outline.rows:
        yield _indented(2, _rows(outline.rows, width))
    for sentence in outline.sentences:
        yield _indented(4, Text(sentence))
    if outline.gradients:
        yield _indented(4, _gradients(outline.gradients, width))
    for remark in outline.remarks:
        yield _indented(4, Text(remark, "dim"))


def _indented(left: int, renderable: RenderableType) -> RenderableType:
    return Padding(renderable, (0, 0, 0, left))


def _hanging(start: Text, rest: str, gap: int = 1) -> Table:
    """Return *start* and, in a column of its own, *rest*."""
    table = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(start, _tied(rest))
    return table


def _head(block: FindingBlock, rest: str = "") -> tuple[Text, str]:
    name = Text(f"{block.severity} {block.code}", _STYLE[block.severity])
    return name, f"{block.place}: {block.headline}{rest}"


def _note(block: FindingBlock, width: int) -> RenderableType:
    """Return a note as one line, with what to type instead where that fits."""
    name, text = _head(block, f"; instead: {block.instead}" if block.instead else "")
    if cell_len(name.plain) + 2 + cell_len(text) > width:
        name, text = _head(block)
    return _hanging(name, text, gap=2)


def _finding(block: FindingBlock, width: int) -> RenderableType:
    lines: list[RenderableType] = [_hanging(*_head(block), gap=2)]
    # A note's suggestion is its own line, respelt: no need to show both.
    if block.hit and not (block.is_folded and block.instead):
        lines.append(_indented(2, _source(block, width - 4)))
    if block.why:
        lines.append(_indented(2, _tied(block.why)))
    if not block.is_folded:
        lines += [_indented(2, _tied(f"{label}: {value}")) for label, value in block.evidence]
    if block.instead:
        instead = _hanging(Text("instead:", "bold"), block.instead)
        lines.append(_indented(2, instead))
    return Group(*lines)


def _source(block: FindingBlock, width: int) -> Text:
    before, hit, after = window(block.before, block.hit, block.after, width)
    carets = " " * cell_len(before) + "^" * max(1, cell_len(hit))
    return Text.assemble(before, (hit, "bold"), after, "\n", (carets, _STYLE[block.severity]))


def _rows(rows: tuple[Row, ...], width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    # Room for opt.param_groups[0]["params"][2], which no space could break.
    table.add_column(overflow="fold", width=2 + _widest((row.name for row in rows), width * 2 // 5))
    shapes = _widest((row.shape for row in rows), width // 5)
    if shapes:
        table.add_column(overflow="fold", width=shapes)
    table.add_column(overflow="fold")
    for row in rows:
        sign = (f"{row.sign or ' '} ", _SIGN_STYLE.get(row.sign, ""))
        cells = [Text.assemble(sign, (row.name, "bold"))]
        cells += [Text(row.shape)] if shapes else []
        table.add_row(*cells, Text(row.text))
    return table


def _widest(texts: Iterator[str], most: int) -> int:
    return min(most, max(map(cell_len, texts)))


def _verdicts(group: VerdictGroup) -> RenderableType:
    lines: list[RenderableType] = [Text(group.title, "bold")]
    for row in group.rows:
        head = Text(f"{row.glyph} {row.word}", _VERDICT_STYLE[row.verdict])
        numbers = f" (off by {row.error}; norm {row.norms})" if row.verdict == "wrong" else ""
        note = f": {row.note}" if row.note else ""
        lines.append(_indented(2, _hanging(head, f"{row.leaf}{numbers}{note}", gap=2)))
    return Group(*lines)


def _gradients(rows: tuple[GradientRow, ...], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("gradient", overflow="fold", max_width=width // 3)
    for title in ("norm", "max", "mean", "nan/inf"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        numbers = (row.norm, row.max_abs, row.mean_abs, row.nonfinite, row.change)
        cells = [Text(text) for text in (row.name, *numbers)]
        table.add_row(*cells, style="" if row.nonfinite == "0" else "bold red")
    return table
