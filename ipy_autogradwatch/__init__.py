"""Watch PyTorch autograd from inside a notebook.

Load it once, then run cells as usual::

    %load_ext ipy_autogradwatch

Importing this package is cheap and has no effect: neither torch nor IPython nor rich is
imported until the extension is loaded (torch not even then, but by the notebook), and
nothing in torch is ever patched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from ipy_autogradwatch.model import CellReport
    from ipy_autogradwatch.rules import Rule

    RULES: Mapping[str, Rule]

__all__ = ["RULES", "last_report", "load_ipython_extension", "unload_ipython_extension"]
__version__ = "0.1.0"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Start watching the cells of *shell*; a second call does nothing."""
    from ipy_autogradwatch.notebook import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop watching, and give *shell* back as it was found."""
    from ipy_autogradwatch.notebook import unload

    unload(shell)


def last_report() -> CellReport | None:
    """Return the report of the cell that finished last, in whichever shell, or None.

    Every cell that a user ran has one, also when it raised or had a syntax error. Empty,
    silent and ``store_history=False`` executions have none and leave the last one in place.
    """
    from ipy_autogradwatch.notebook import last_report

    return last_report()


def __getattr__(name: str) -> Any:
    if name == "RULES":
        from types import MappingProxyType

        from ipy_autogradwatch.rules import all_rules

        rules = MappingProxyType({rule.code: rule for rule in all_rules()})
        globals()["RULES"] = rules
        return rules
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
