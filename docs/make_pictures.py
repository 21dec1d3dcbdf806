"""Draw the pictures of the README: a report in a notebook, light and dark. Needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import nbformat
from run_demo import as_html, run_notebook

IMAGES = Path(__file__).resolve().parent / "img"
SIZE = (760, 485)

SETUP = """\
%load_ext ipy_autogradwatch
import torch
"""
SHOWN = """\
w = torch.tensor([2.0], requires_grad=True)
loss = w**3                # its gradient at 2 is 12
w.data += 1                # backward has not run yet
loss.backward()
print(w.grad, w.data)
"""


def chromium() -> str | None:
    """Return the browser's path, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


def browse(page: str, options: Iterable[str]) -> str:
    """Open *page* (HTML) in a headless browser of its own, and return what that prints."""
    browser = chromium()
    assert browser is not None, "no Chromium on PATH"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        quiet = ["--no-first-run", "--disable-quic", "--disable-background-networking"]
        quiet += ["--disable-component-update", "--disable-sync", "--hide-scrollbars"]
        alone = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"]
        command = [browser, *alone, *quiet, *options, path.as_uri()]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return done.stdout.decode()


def main() -> int:
    """Draw the pictures."""
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in (SETUP, SHOWN)]
    notebook = run_notebook(nbformat.v4.new_notebook(cells=cells))
    del notebook.cells[0]
    IMAGES.mkdir(exist_ok=True)
    for theme in ("light", "dark"):
        picture = IMAGES / f"report-{theme}.png"
        size = f"--window-size={SIZE[0]},{SIZE[1]}"
        browse(as_html(notebook, theme), [f"--screenshot={picture}", size])
        print(f"{picture.name}: {picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
