"""How far ``%%gradcheck`` is, where that takes longer than a second."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.notebook.display import is_kernel


class Progress:
    """One line that is taken away again: a display that is updated, or a bar in a terminal."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._id = f"autogradwatch-{id(self):x}"
        self._shown = False
        self._bar: Any = None

    def show(self, done: int, total: int) -> None:
        """Say that *done* of *total* backwards are settled."""
        text = f"autogradwatch: {done} of at most {total} backwards settled"
        if is_kernel(self._shell):
            self._publish(text)
        elif sys.stdout.isatty():
            self._draw(done, total)

    def close(self) -> None:
        """Take it away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._shown:
            self._publish("")
            self._shown = False

    def _publish(self, text: str) -> None:
        self._shell.display_pub.publish(
            data={"text/plain": text},
            metadata={},
            transient={"display_id": self._id},
            update=self._shown,
        )
        self._shown = True

    def _draw(self, done: int, total: int) -> None:
        # Not before there is something to show: rich takes a while to import.
        from rich import progress

        if self._bar is None:
            self._bar = progress.Progress(
                transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._bar.add_task("gradcheck", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)
