"""Stage 1, instrument: put identity probes into a cell's syntax tree.

    loss.data                becomes   P(P(loss, SITE).data, SITE, ALIAS)
    w.data = y               becomes   P(w, SITE).data = P(y, SITE, VALUE)
    w.data += y              becomes   P(w, SITE).data += y
    loss.backward()          becomes   P(loss, SITE, ROOT).backward()
    nn.Parameter(t)          becomes   P(nn.Parameter(t), SITE, LEAF)

where P is the name ``__autogradwatch__`` and SITE a tuple of strings and numbers. The
probe returns its argument. So the access itself stays in the user's frame, at its own
line and column: a traceback reads exactly as it would without us, ``x.data += y``
evaluates ``x`` once, and an object whose ``.data`` is not ours to judge (a DataFrame, a
request) behaves as ever. What kind of object it was is known only at run time; the probe
looks then.

A site travels in the code itself, as a constant. Nothing is registered anywhere, so a
cell that is run a thousand times leaves nothing behind, and a function keeps its sites
for exactly as long as it lives.

Standard library only: no torch, no IPython.
"""

from __future__ import annotations

import ast

from ipy_autogradwatch.instrument.editor import EditorSource
from ipy_autogradwatch.instrument.places import find_places
from ipy_autogradwatch.instrument.rewrite import insert_probes
from ipy_autogradwatch.model import PROBE_NAME, Site

__all__ = ["PROBE_NAME", "instrument", "may_have_sites"]

_TRIGGERS = ("data", "backward", "grad", "Parameter")


def may_have_sites(source: str) -> bool:
    """Whether *source* is worth a walk through its tree."""
    return any(word in source for word in _TRIGGERS)


def instrument(
    tree: ast.Module, source: str, *, cell: int | None, file: str | None = None
) -> tuple[Site, ...]:
    """Put probes into *tree*, in place, and return their sites, each before those inside it.

    IPython unregisters a transformer that raises, and runs the tree as the transformer
    left it. So everything that can fail comes first: places are found and described while
    the tree is still the user's, and only then is it changed, by assignments alone.

    Args:
        tree: What IPython parsed: a cell, or the piece of one that ``%%time`` compiles.
        source: The cell as the user sees it, magics and leading blank lines included.
        cell: Its execution count, or None if it stands in a file.
        file: Name of that file.
    """
    places = find_places(tree)
    if not places:
        return ()
    editor = EditorSource(tree, source, places)
    sites = tuple(editor.site(place, cell=cell, file=file) for place in places)
    insert_probes(list(zip(places, sites, strict=True)))
    return sites
