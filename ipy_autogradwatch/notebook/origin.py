"""Which text a syntax tree came from, as the user sees it.

IPython hands a transformer a tree and nothing else. The events know the raw text of a
cell, but not of one that runs silently, and ``%run x.ipynb`` runs its cells so. The frames
that called the transformer know it in every case.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType

from IPython.core.interactiveshell import InteractiveShell

_RUN_CELL = "run_cell_async"
_RUN_FILE = "safe_execfile_ipy"


def origin(shell: InteractiveShell, by_hand: CodeType) -> tuple[str | None, str | None]:
    """Return the text that is being compiled, and the file it stands in, if any.

    The text is the whole cell of the editor, also for a piece that ``%%time`` or
    ``%%capture`` compiles. Code that stands in no cell (somebody's ``run_cell("...")``) is
    its own text, and the call's name does for a file.

    Args:
        shell: Whose transformers are running; another shell's cell may have called it.
        by_hand: The function that runs the body of ``run_cell_magic("gradcheck", ...)``,
            and has it in ``raw``.
    """
    inner = outer = called = file = None
    frame = sys._getframe(1)
    while frame.f_back is not None and file is None:
        frame = frame.f_back
        name = frame.f_code.co_name
        if name not in (_RUN_CELL, _RUN_FILE, by_hand.co_name):
            continue
        variables = frame.f_locals
        if name == by_hand.co_name and frame.f_code is by_hand:
            text, caller = variables.get("raw"), "%%gradcheck"
        elif variables.get("self") is not shell:
            continue
        elif name == _RUN_FILE:
            file = _shown(variables.get("fname"))
            continue
        else:
            text, caller = variables.get("raw_cell"), "run_cell"
        if isinstance(text, str):
            outer = text
            if inner is None:
                inner, called = text, caller
    if inner is not None and outer is not None and inner.strip() not in outer:
        return inner, file or called
    return outer, file


def _shown(name: object) -> str:
    """Return the name of a file as the user would write it."""
    path = Path(str(name))  # Already a Path in some versions of IPython.
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
