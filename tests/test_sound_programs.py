"""A sound program gets no alarm, whatever it does on purpose.

Each file of ``sound`` is a small notebook: a header, then cells begun by ``# %%``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ipy_autogradwatch as aw
from ipy_autogradwatch.model import Severity

PROGRAMS = sorted((Path(__file__).parent / "sound").glob("*.py"))

WRONG = "w = torch.ones(2, requires_grad=True)\nl = (w * w).sum()\nw.data.mul_(2)\nl.backward()"


def cells_of(path):
    """Return the cells of the program at *path*; its header is none."""
    return [part.rstrip("\n") for part in re.split(r"(?m)^# %%.*\n", path.read_text())[1:]]


def alarms(shell, cells):
    """Run *cells* and return what is alarmed, or goes wrong with the watcher."""
    found = []
    for number, cell in enumerate(cells, 1):
        shell.run_cell(cell, store_history=True).raise_error()
        report = aw.last_report()
        assert report.cell == shell.execution_count - 1
        found += [
            (number, finding.code, finding.line, finding.headline)
            for finding in report.findings
            if finding.severity is not Severity.NOTE
        ]
    return found


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_a_sound_program_gets_no_alarm(watcher, shell, path):
    assert alarms(shell, cells_of(path)) == []


def test_an_alarm_would_be_noticed(watcher, shell):
    assert [code for _, code, *_ in alarms(shell, ["import torch", WRONG])] == ["AGW105"]


def test_there_are_programs_enough():
    assert len(PROGRAMS) >= 70
    assert all(cells_of(path) for path in PROGRAMS)
