"""In a terminal: reports are plain blocks of its width, coloured only where that is wanted."""

from __future__ import annotations

import os
import re
import sys

import pexpect
import pytest

pytestmark = pytest.mark.kernel

PROMPT = r"In \[\d+\]: "
MORE = r"\.\.\.: "


class Terminal:
    """A terminal IPython that has loaded the extension."""

    def __init__(self, ipython_dir):
        keep = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=Linux"],
            env={**keep, "TERM": "xterm", "IPYTHONDIR": str(ipython_dir)},
            dimensions=(60, 88),
            encoding="utf-8",
            timeout=60,
            echo=False,
        )
        self._child.expect(PROMPT)
        self.run("%load_ext ipy_autogradwatch")
        self.run("import os, torch; w = torch.ones(2, requires_grad=True)")

    def run(self, line):
        """Enter a *line*; return what was shown until the next prompt."""
        self._child.sendline(line)
        self._child.expect(PROMPT)
        return self._child.before.replace("\r\n", "\n")

    def enter(self, line):
        """Enter a *line* of a cell that must not end there."""
        self._child.sendline(line)
        assert self._child.expect([MORE, PROMPT]) == 0, f"ran early: {self._child.before}"

    def resize(self, width):
        self._child.setwinsize(60, width)

    def close(self):
        self._child.close(force=True)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    terminal = Terminal(tmp_path_factory.mktemp("ipython"))
    yield terminal
    terminal.close()


def test_a_cell_with_data_gets_its_note_below_its_output(terminal):
    shown = _plain(terminal.run("print(w.data)"))
    assert "\n  note AGW101  line 1: `w.data` is only read\n" in shown
    assert shown.index("tensor([1., 1.])") < shown.index("autogradwatch: 1 note")


def test_a_gradcheck_cell_runs_when_it_is_complete_and_not_before(terminal):
    terminal.enter("%%gradcheck")
    terminal.enter("loss = (w * 3).sum()")
    terminal.enter("loss.backward()")
    terminal.enter("")
    shown = _plain(terminal.run(""))
    assert "backward at line 3: from loss to w" in shown
    assert "gradients of loss (backward at line 3): 1 right" in shown


def test_an_error_keeps_its_traceback_and_gets_a_report(terminal):
    shown = _plain(terminal.run("v = w.detach(); v.sum().backward()"))
    assert "RuntimeError: element 0 of tensors does not require grad" in shown
    assert "which has no graph" in shown[shown.index("RuntimeError") :]


@pytest.mark.parametrize("setting", ["NO_COLOR=1", "TERM=dumb"])
def test_no_color_and_a_dumb_terminal_get_no_escapes(terminal, setting):
    name, _, value = setting.partition("=")
    assert "\x1b[36mnote AGW101\x1b[0m" in terminal.run("print(w.data)")
    terminal.run(f"before = dict(os.environ); os.environ[{name!r}] = {value!r}")
    shown = terminal.run("print(w.data)")
    terminal.run("os.environ.clear(); os.environ.update(before)")
    assert "autogradwatch: 1 note\n  note AGW101" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [60, 88, 140])
def test_a_report_keeps_to_the_width_of_the_terminal(terminal, width):
    terminal.resize(width)
    terms = " + ".join(f"w.data.{how}()" for how in ("sum", "mean", "max", "min", "std", "var"))
    shown = _plain(terminal.run(f"total = {terms} + w.data.prod() + w.data.norm()"))
    lines = shown[shown.index("autogradwatch") :].splitlines()
    assert width - 20 < max(map(len, lines)) <= width


def _plain(shown):
    return re.sub(r"\x1b\[[\d;]*m", "", shown)
