"""Run the shell tests on older versions of IPython.

    python tests/matrix.py              the versions below
    python tests/matrix.py 8.12.3       others

Each version is installed once, with what it depends on, into a folder below ``build``
that goes first on the path. All else, torch included, is that of this environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("7.34.0", "8.39.0")
TESTS = (
    "test_load.py",
    "test_cells.py",
    "test_gradcheck_cell.py",
    "test_magics.py",
    "test_fence.py",
)

# Says which IPython the tests themselves have imported.
_RUN = """
import sys, IPython, pytest
print("IPython", IPython.__version__, "at", IPython.__file__, flush=True)
sys.exit(pytest.main(sys.argv[1:]))
"""


def folder(version: str) -> Path:
    """Return the folder with that version of IPython, after installing it if need be."""
    path = ROOT / "build" / f"ipython-{version}"
    if not (path / f"ipython-{version}.dist-info" / "METADATA").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade"]
        subprocess.run([*pip, "--target", str(path), f"ipython=={version}"], check=True)
    return path


def passes(version: str) -> bool:
    """Run the tests on that version, print a line about it, and its output if it failed."""
    path = folder(version)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "-q", "-p", "no:cacheprovider", *_files()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    really = re.search(r"^IPython (\S+) at (.+)$", done.stdout, re.M)
    is_that = really is not None and really[1] == version and really[2].startswith(str(path))
    summary = done.stdout.strip().rpartition("\n")[2]
    print(f"IPython {really[1] if really else '?'}: {summary}", flush=True)
    if done.returncode or not is_that:
        print(done.stdout + done.stderr)
        print(f"IPython {version}: failed" + ("" if is_that else ", another one was imported"))
    return done.returncode == 0 and is_that


def _files() -> list[str]:
    return [str(ROOT / "tests" / name) for name in TESTS]


if __name__ == "__main__":
    results = [passes(version) for version in sys.argv[1:] or VERSIONS]
    sys.exit(0 if all(results) else 1)
