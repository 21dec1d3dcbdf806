"""``%%gradcheck`` without a nested run: its line is rewritten, its body stays a cell.

    %%gradcheck                        get_ipython()._ipy_autogradwatch.begin_gradcheck('')
    loss = model(x)          becomes   loss = model(x)
    loss.backward()                    loss.backward()

So ``Out[n]``, ``_``, a trailing semicolon, top-level await, tracebacks, syntax errors and
the line numbers of the body are those of a plain cell, because it is one. A magic that
ran its body (as ``%%time`` does) would get each of these wrong.
"""

from __future__ import annotations

import re

from IPython.core.inputtransformer2 import cell_magic

_LINE = re.compile(r"%%gradcheck(?:[ \t]+(.*))?$")
_ASKS = re.compile(r"^%%gradcheck(?![\w?])", re.M)


def asks_for_gradcheck(source: str) -> bool:
    """Whether a cell asks to be checked, so that it is watched even if no other is."""
    return _ASKS.search(source) is not None


def rewrite_gradcheck(lines: list[str]) -> list[str]:
    """Rewrite the first of *lines* if it is ``%%gradcheck``. An input transformer.

    Pure: ipykernel transforms each cell twice.
    """
    match = _LINE.match(lines[0].rstrip("\r\n")) if lines else None
    if match is None or not "".join(lines[1:]).strip():
        return lines  # An empty body gets IPython's own message.
    return [_begin(match[1] or ""), *_stacked(lines[1:])]


# Else check_complete() would see an ordinary first line, and a terminal would run the cell
# after it.
rewrite_gradcheck.has_side_effects = True  # type: ignore[attr-defined]


def _begin(options: str) -> str:
    return f"get_ipython()._ipy_autogradwatch.begin_gradcheck({options.strip()!r})\n"


def _stacked(body: list[str]) -> list[str]:
    """Expand a cell magic at the top of *body*; IPython looks for one in line 1 only."""
    first = next(index for index, line in enumerate(body) if line.strip())
    if not body[first].startswith("%%"):
        return body
    rest = body[first:]
    again = _LINE.match(rest[0].rstrip("\r\n")) is not None
    return [*body[:first], *(rewrite_gradcheck(rest) if again else cell_magic(rest))]  # type: ignore[no-untyped-call]
