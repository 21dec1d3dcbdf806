"""Put a report where the user looks: below the cell, or into the terminal."""

from __future__ import annotations

import os
import shutil
import sys

from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.model import CellReport
from ipy_autogradwatch.notebook.config import AutogradWatch

KERNEL_WIDTH = 88
"""Columns of ``text/plain`` in a notebook, where no terminal tells."""


def show_report(
    shell: InteractiveShell,
    report: CellReport,
    settings: AutogradWatch,
    *,
    show: str | None = None,
) -> None:
    """Publish *report*, unless there is nothing to say.

    Args:
        shell: Where.
        report: What.
        settings: How much.
        show: Instead of ``settings.report``.
    """
    show = show or settings.report
    if show == "off" and not report.gradcheck:
        return
    if report == CellReport(report.cell, error=report.error):
        return
    # Not before there is something to show: rich takes as long to import as the rest of us.
    from ipy_autogradwatch.render import mimebundle

    bundle = mimebundle(
        report,
        show=show,
        max_findings=settings.max_findings,
        width=width_of(shell),
        color=has_color(shell),
    )
    if bundle is not None:
        shell.display_pub.publish(data=bundle, metadata={})


def is_kernel(shell: InteractiveShell) -> bool:
    """Whether a front end draws what *shell* publishes."""
    return getattr(shell, "kernel", None) is not None


def width_of(shell: InteractiveShell) -> int:
    """Return how many columns text may have."""
    if is_kernel(shell):
        return KERNEL_WIDTH
    return max(40, shutil.get_terminal_size((KERNEL_WIDTH, 24)).columns)


def has_color(shell: InteractiveShell) -> bool:
    """Whether text goes to a terminal that shows colours, and the user wants them."""
    if is_kernel(shell) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    if str(getattr(shell, "colors", "")).lower() == "nocolor":
        return False
    return bool(getattr(sys.stdout, "isatty", lambda: False)())
