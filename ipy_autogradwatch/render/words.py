"""Words and bounds that every part of a report shares."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from rich.cells import cell_len

from ipy_autogradwatch.model import TensorState

MAX_NAMES = 6
MAX_NAME = 60
MAX_TEXT = 600

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def clean(text: str) -> str:
    """Return *text* with control characters and bidirectional marks made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if unicodedata.category(char) not in _UNSEEN else _escaped(ord(char)) for char in text
    )


def short(text: str, limit: int = MAX_TEXT) -> str:
    """Return *text*, clean and of at most *limit* characters."""
    shown = clean(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def window(before: str, hit: str, after: str, room: int) -> tuple[str, str, str]:
    """Return a line in three parts, cut to *room* columns on screen around its *hit*."""
    hit = _head(hit, room)
    room -= cell_len(hit)
    left, right = cell_len(before), cell_len(after)
    if left + right <= room:
        return before, hit, after
    # Half of the room each; what one side does not need, the other has.
    keep_left = min(left, max(room // 2, room - right))
    keep_right = room - keep_left
    if left > keep_left:
        before = "…" + _head(before[::-1], keep_left - 1)[::-1] if keep_left else ""
    if right > keep_right:
        after = _head(after, keep_right - 1) + "…" if keep_right else ""
    return before, hit, after


def shape_text(state: TensorState) -> str:
    """Return ``(3, 4)``, with the dtype or device that differ from the common ones."""
    words = ["(no shape yet)" if state.shape is None else str(state.shape)]
    if state.dtype != "float32":
        words.append(state.dtype)
    if state.device != "cpu":
        words.append(state.device)
    return " ".join(words)


def names_text(names: Iterable[str]) -> str:
    """Return the names, the first few of them, with the members of a module folded."""
    folded: dict[str, None] = {}
    listed = list(names)
    owners = Counter(owner_of(name) for name in listed)
    for name in listed:
        owner = owner_of(name)
        many = owners[owner] > 2 and owner != name
        folded[f"{short(owner, MAX_NAME)} ({owners[owner]} leaves)" if many else name] = None
    shown = [short(name, MAX_NAME) for name in list(folded)[:MAX_NAMES]]
    more = len(folded) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def owner_of(name: str) -> str:
    """Return ``model`` for ``model.fc1.weight``."""
    match = re.match(r"[^.\[]+", name)
    return name if match is None else match[0]


def count(number: int, noun: str) -> str:
    """Return ``1 tensor``, ``2 tensors``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _escaped(number: int) -> str:
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def _head(text: str, room: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > room:
            return text[:index]
    return text
