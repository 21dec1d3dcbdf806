"""What to type instead, built from the user's own statement."""

from __future__ import annotations

import re

from ipy_autogradwatch.model import DataAccess, SiteKind
from ipy_autogradwatch.rules._data import DataLine

_COMPOUND = re.compile(r"(for|while|if|elif|with|async|def|class|return|try|else|match|case|@)\b")
_LONGEST = 160


def instead_of_read(line: DataLine) -> str:
    """Return the statement with ``.detach()``, or with nothing where nothing is needed."""
    return _spell(line, _read_spelling)


def instead_of_update(line: DataLine) -> str:
    """Return the statement under ``torch.no_grad()``."""
    access = line.access
    site = access.site
    if access.is_gradient and "zero_" in site.consumer:
        return f"{site.receiver} = None    # or optimizer.zero_grad()"
    if site.kind is not SiteKind.UPDATE:
        # Written later, through a name or by a function.
        return _spell(line, lambda a: f"{a.site.receiver}.detach()")
    plain = _spell(line, lambda a: a.site.receiver)
    if _is_init(site.consumer):
        return plain
    if _COMPOUND.match(plain) or "\n" in plain:
        return f"with torch.no_grad(): …    # and {site.receiver} in place of {site.receiver}.data"
    return f"with torch.no_grad(): {plain}"


def instead_of_assign(line: DataLine) -> str:
    """Return a copy under ``torch.no_grad()``, or a new Parameter where the shape changes."""
    access = line.access
    new, old = access.assigned, access.replaced
    receiver = access.site.receiver
    target, equals, value = _spell(line, lambda a: a.site.receiver).partition("=")
    value = value.strip()
    if not equals or target.strip() != receiver or "\n" in value or not value:
        value = "…"
    if new is not None and old is not None and (new.shape, new.dtype) != (old.shape, old.dtype):
        return f"{receiver} = torch.nn.Parameter({value})    # and a new optimizer"
    return f"with torch.no_grad(): {receiver}.copy_({value})"


def _read_spelling(access: DataAccess) -> str:
    receiver = access.site.receiver
    plain = access.is_gradient or access.is_lazy or not access.any_in_graph
    return receiver if plain else f"{receiver}.detach()"


def _is_init(consumer: str) -> bool:
    base, _, name = consumer.rpartition(".")
    return base.endswith("init") and name.endswith("_")


def _spell(line: DataLine, spelling) -> str:  # type: ignore[no-untyped-def]
    """Return the statement with each ``.data`` of the line respelt."""
    text = line.access.site.statement
    # The longest first: `w.grad.data` before `w.data`.
    for access in sorted((line.access, *line.others), key=lambda a: -len(a.site.receiver)):
        text = _replace(text, access, spelling(access))
    text = _without_comment(text)
    return text if len(text) <= _LONGEST else f"{spelling(line.access)}"


def _replace(text: str, access: DataAccess, new: str) -> str:
    receiver = access.site.receiver
    pattern = rf"(?<![\w.]){re.escape(receiver)}\s*\.data\b(?!\s*\.data\b)"
    scalar = access.tensor.shape == () and not access.is_gradient
    if scalar and access.site.kind is SiteKind.READ:
        # ``loss.data[0]`` of old tutorials, ``loss.data.item()``.
        text = re.sub(pattern + r"(\[0\]|\.item\(\))", lambda _: f"{receiver}.item()", text)
    if access.site.consumer.lstrip(".") in ("shape", "size", "dim", "device", "dtype", "ndim"):
        new = receiver
    text = re.sub(rf"\bgetattr\({re.escape(receiver)},\s*(['\"])data\1\)", lambda _: new, text)
    return re.sub(pattern, lambda _: new, text)


def _without_comment(text: str) -> str:
    # Good enough for a suggestion: a # inside a string ends with a quote further right.
    head, mark, tail = text.rpartition("#")
    return head.rstrip() if mark and not re.search(r"['\"]", tail) else text
