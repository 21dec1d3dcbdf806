"""Fixtures. A shell here is a private InteractiveShell: nothing leaks between tests."""

from __future__ import annotations

import atexit
import os
import sys

import IPython
import pytest
from hypothesis import settings
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from ipy_autogradwatch import notebook

# IPython warns in a shell where another environment than the running one is activated.
os.environ.pop("VIRTUAL_ENV", None)

# A test machine may be busy: a slow example is no failure. Derandomized, so that a red run
# is about the change under test; `--hypothesis-profile=explore` looks further.
settings.register_profile("repo", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("explore", deadline=None, max_examples=5000)
settings.load_profile("repo")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.fixture(autouse=True)
def ipython_dir(tmp_path_factory):
    """IPython's own files go to a temporary folder, and its history nowhere."""
    before = os.environ.get("IPYTHONDIR")
    os.environ["IPYTHONDIR"] = str(tmp_path_factory.getbasetemp() / "ipython")
    yield
    if before is None:
        del os.environ["IPYTHONDIR"]
    else:
        os.environ["IPYTHONDIR"] = before


@pytest.fixture(autouse=True)
def gradients_on():
    """Grad mode is the process's: a cell that leaves it off would do so for all tests."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and not torch.is_grad_enabled():
        torch.set_grad_enabled(True)


def new_shell():
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    # Else every shell of the run waits for the end of the process, and takes its time there.
    atexit.unregister(shell.atexit_operations)
    # IPython 9 writes "nocolor", earlier ones "NoColor".
    shell.run_line_magic("colors", "nocolor" if IPython.version_info[0] >= 9 else "NoColor")
    return shell


@pytest.fixture
def shell():
    """A shell without the extension, which a test may load."""
    shell = new_shell()
    yield shell
    notebook.unload(shell)


@pytest.fixture
def careless_watcher(shell):
    """A watched shell whose own errors are part of the test."""
    return notebook.load(shell)


@pytest.fixture
def watcher(careless_watcher):
    """A watched shell that must not fail: whatever its fence caught fails the test.

    Raising on the spot would not do. IPython catches what a callback raises, prints it, and
    goes on; the test would pass.
    """
    yield careless_watcher
    assert list(careless_watcher.fence.history) == []
