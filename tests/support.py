"""What tests share."""

from __future__ import annotations

from pathlib import Path

import ipy_autogradwatch as aw

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"


def run(shell, *cells):
    """Run *cells*; a cell that fails fails the test. Return the report of the last."""
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()
    return aw.last_report()


def run_failing(shell, cell):
    """Run a *cell* that must raise. Return its exception and its report."""
    result = shell.run_cell(cell, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    assert error is not None, "the cell should have raised"
    return error, aw.last_report()


def places(report):
    """Return (code, line) of each finding."""
    return [(finding.code, finding.line) for finding in report.findings]


def assert_golden(text, name, request):
    """Compare *text* with ``tests/golden/NAME``, or write it under ``--update-golden``."""
    path = GOLDEN / name
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
