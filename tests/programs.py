"""Small notebooks kept as files: a header comment, then cells, each begun by ``# %%``."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from conftest import new_shell

import ipy_autogradwatch as aw
from ipy_autogradwatch import notebook
from ipy_autogradwatch.model import Severity

HERE = Path(__file__).parent


def programs(folder):
    """Return the programs of a folder beside this file, by name."""
    return sorted((HERE / folder).glob("*.py"))


def cells_of(path):
    """Return the cells of a program, without the header."""
    text = path.read_text(encoding="utf-8")
    return [part.rstrip("\n") for part in re.split(r"(?m)^# %%.*\n", text)[1:]]


def watch(cells):
    """Run *cells* in a watched shell of their own.

    Return the report below each, the errors that they raised, and what the watcher's own
    fence has caught.
    """
    shell = new_shell()
    watcher = notebook.load(shell)
    watcher.settings.report = "off"
    reports, errors = [], []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for cell in cells:
                result = shell.run_cell(cell, store_history=True)
                errors.append(result.error_before_exec or result.error_in_exec)
                reports.append(aw.last_report())
    finally:
        notebook.unload(shell)
    return reports, errors, list(watcher.fence.history)


def alarms(reports):
    """Return (code, cell, line) of each finding that is more than a note."""
    return sorted(
        {
            (finding.code, finding.cell, finding.line)
            for report in reports
            for finding in report.findings
            if finding.severity is not Severity.NOTE
        }
    )
