"""What tests of real kernels share: run cells, and find the reports among their outputs."""

from __future__ import annotations

import importlib
import sys

import nbformat
from support import ROOT

MIME_JSON = "application/vnd.autogradwatch+json"
RAISES = "raises-exception"


def script(name):
    """Return ``docs/NAME.py`` as a module."""
    if str(ROOT / "docs") not in sys.path:
        sys.path.append(str(ROOT / "docs"))
    return importlib.import_module(name)


def cell(source, *tags):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)} if tags else {})


def run_cells(*cells, **options):
    """Run cells, or their sources, in a fresh kernel that has loaded the extension."""
    first = cell("%load_ext ipy_autogradwatch\nimport torch")
    cells = [c if not isinstance(c, str) else cell(c) for c in cells]
    notebook = nbformat.v4.new_notebook(cells=[first, *cells])
    script("run_demo").run_notebook(notebook, **options)
    return notebook.cells[1:]


def reports(cell):
    """Return the mimebundles of the reports below *cell*."""
    return [
        output.data
        for output in cell.outputs
        if output.output_type == "display_data" and MIME_JSON in output.data
    ]


def report(cell):
    """Return the mimebundle of the one report below *cell*."""
    (only,) = reports(cell)
    return only


def found(cell):
    """Return (code, line) of each finding below *cell*."""
    return [(finding["code"], finding["line"]) for finding in report(cell)[MIME_JSON]["findings"]]


def printed(cell, name="stdout"):
    """Return what *cell* wrote to a stream."""
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == name)


def error(cell):
    """Return the message of the exception that *cell* raised."""
    (only,) = [output for output in cell.outputs if output.output_type == "error"]
    return only.evalue
