"""A report as text: compiler-style blocks, for terminals and for ``text/plain``."""

from __future__ import annotations

from io import StringIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from ipy_autogradwatch.model import Severity
from ipy_autogradwatch.render.outline import FindingBlock, GradientRow, Outline, Row

_STYLE = {Severity.WRONG: "bold red", Severity.RISKY: "bold yellow", Severity.NOTE: "cyan"}


def as_text(outline: Outline, *, width: int, color: bool) -> str:
    """Return *outline* as lines of at most *width* columns, with ANSI colours if *color*."""
    return _print(_layout(outline), width=width, color=color)


def page_text(markdown: str, *, width: int, color: bool) -> str:
    """Return a page of documentation for the terminal."""
    return _print(Markdown(markdown), width=width, color=color)


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
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _layout(outline: Outline) -> RenderableType:
    title = Text.assemble(("autogradwatch", "bold"))
    if outline.title:
        title.append(f": {outline.title}")
    parts: list[RenderableType] = [title]
    for block in outline.findings:
        parts.append(Padding(_finding(block), (0, 0, 0, 2)))
    rows = [*outline.rows, *outline.backwards]
    if rows:
        widest = min(28, max(cell_len(row.name) for row in rows))
        parts += [_row(row, widest) for row in rows]
    if outline.gradients:
        parts.append(Padding(_gradients(outline.gradients), (0, 0, 0, 2)))
    parts += [_indented(Text(remark, "dim"), 2) for remark in outline.remarks]
    return Group(*parts)


def _indented(text: Text, left: int, hang: int = 0) -> RenderableType:
    return Padding(text, (0, 0, 0, left + hang))


def _finding(block: FindingBlock) -> RenderableType:
    lines: list[RenderableType] = [
        Text.assemble(
            (f"{block.severity} {block.code}", _STYLE[block.severity]),
            f"  {block.place}: {block.headline}",
        )
    ]
    if block.source:
        source = Text(block.source)
        source.stylize("bold", block.start, block.end)
        lines.append(Padding(source, (0, 0, 0, 4)))
        if block.end > block.start:
            before = " " * cell_len(block.source[: block.start])
            carets = "^" * max(1, cell_len(block.source[block.start : block.end]))
            lines.append(Padding(Text(before + carets, _STYLE[block.severity]), (0, 0, 0, 4)))
    lines.append(Padding(Text(block.why), (0, 0, 0, 2)))
    if block.severity is not Severity.NOTE:
        lines += [Padding(Text(f"{k}: {v}"), (0, 0, 0, 2)) for k, v in block.evidence]
    if block.instead:
        lines.append(Padding(Text.assemble(("instead: ", "bold"), block.instead), (0, 0, 0, 2)))
    return Group(*lines)


def _row(row: Row, widest: int) -> RenderableType:
    if row.sign == "backward":
        return Padding(Text(f"backward at {row.name} {row.text}"), (0, 0, 0, 2))
    pad = " " * max(0, widest - cell_len(row.name))
    style = {"+": "green", "-": "dim"}.get(row.sign, "")
    return Padding(
        Text.assemble((f"{row.sign or ' '} ", style), (row.name, "bold"), f"{pad}  {row.text}"),
        (0, 0, 0, 2),
    )


def _gradients(rows: tuple[GradientRow, ...]) -> Text:
    widest = max(8, *(cell_len(row.name) for row in rows))
    header = f"{'gradient':<{widest}}  {'norm':>10} {'max':>10} {'mean':>10} {'nan/inf':>8}"
    text = Text(header + "\n", "dim")
    for row in rows:
        pad = " " * (widest - cell_len(row.name))
        numbers = f"{row.norm:>10} {row.max_abs:>10} {row.mean_abs:>10} {row.nonfinite:>8}"
        style = "bold red" if row.nonfinite != "0" else ""
        text.append(f"{row.name}{pad}  {numbers}  {row.change}\n", style)
    text.rstrip()
    return text
