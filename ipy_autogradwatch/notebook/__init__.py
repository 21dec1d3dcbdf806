"""The wiring: IPython's events, magics and configuration on one side, our stages on the other.

The only package that imports IPython. It decides when a stage runs, never what it does.
"""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.model import CellReport
from ipy_autogradwatch.notebook.extension import ATTRIBUTE, Extension, latest

__all__ = ["last_report", "load", "unload"]


def load(shell: InteractiveShell) -> Extension:
    """Watch *shell*, or return the extension that already does."""
    extension = getattr(shell, ATTRIBUTE, None)
    if extension is None:
        extension = Extension(shell)
        extension.attach()
    assert isinstance(extension, Extension)
    return extension


def unload(shell: InteractiveShell) -> None:
    """Stop watching *shell*; nothing happens if it is not watched."""
    extension = getattr(shell, ATTRIBUTE, None)
    if extension is not None:
        extension.detach()


def last_report() -> CellReport | None:
    """Return the report of the cell that finished last, or None."""
    return latest.report
