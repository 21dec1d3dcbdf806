"""Run ``demo.ipynb`` in a real kernel; print its reports, and write ``build/demo.html``.

With ``--write`` the outputs go into ``demo.ipynb`` itself, else into ``build/demo.ipynb``.
Fails when a cell raises that should not, or does not raise though its tag says so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo.ipynb"
BUILD = ROOT / "build"
RAISES = "raises-exception"

_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class ThisPython(KernelSpecManager):
    """Knows one kernel: that of the running interpreter, whatever else is installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return how to start it."""
        # Tracebacks are one line: the others are frames of torch, under a path of this machine.
        options = ["--log-level=ERROR", "--InteractiveShell.xmode=Minimal"]
        start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=start + options, display_name="Python 3", language="python")


class ThisKernel(AsyncKernelManager):
    """Starts and stops that kernel."""

    def _kernel_spec_manager_default(self) -> ThisPython:
        return ThisPython()


def run_notebook(notebook: Any, *, allow_errors: bool = False) -> Any:
    """Execute *notebook* in place, in a fresh kernel, and return it.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised that was not allowed to.
    """
    NotebookClient(
        notebook,
        # By its class: a manager that is handed over would not be shut down.
        kernel_manager_class=ThisKernel,
        timeout=300,
        allow_errors=allow_errors,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(ROOT)}},
    ).execute()
    return notebook


def complaints(notebook: Any) -> Iterator[str]:
    """Yield what is wrong with the outputs of *notebook*, a line each."""
    for number, cell in enumerate(code_cells(notebook), 1):
        errors = [output.evalue for output in cell.outputs if output.output_type == "error"]
        tagged = RAISES in cell.metadata.get("tags", [])
        if errors and not tagged:
            yield f"cell {number} raises: {errors[0]}"
        if tagged and not errors:
            yield f"cell {number} should raise, and does not"
        if any("report is incomplete" in _output_text(output) for output in cell.outputs):
            yield f"the report of cell {number} is incomplete"
    text = nbformat.writes(notebook)
    for path in {str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix} - {"/", "/usr"}:
        if path in text:
            yield f"an output holds a path of this machine: {path}"


def code_cells(notebook: Any) -> list[Any]:
    """Return the code cells of *notebook*."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def as_text(notebook: Any) -> Iterator[str]:
    """Yield headings, cells, and what each cell printed, as a terminal shows them."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield from ("", cell.source, "")
            continue
        for number, line in enumerate(cell.source.splitlines()):
            yield ("    ...: " if number else f"In [{cell.execution_count}]: ".rjust(9)) + line
        for output in cell.outputs:
            yield _output_text(output).rstrip("\n")
        yield ""


def as_html(notebook: Any, theme: str = "light") -> str:
    """Return *notebook* as a page that stands alone."""
    page: str
    page, _ = HTMLExporter(template_name="lab", theme=theme).from_notebook_node(notebook)
    return page


def _output_text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return str(output.data.get("text/plain", ""))


def main() -> int:
    """Run the demo; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the outputs into demo.ipynb")
    arguments = parser.parse_args()
    notebook = run_notebook(nbformat.read(DEMO, as_version=4), allow_errors=True)
    notebook.metadata = nbformat.from_dict(_METADATA)
    print("\n".join(as_text(notebook)))
    wrong = list(complaints(notebook))
    for complaint in wrong:
        print(f"demo.ipynb: {complaint}", file=sys.stderr)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "demo.html").write_text(as_html(notebook), encoding="utf-8")
    if not (wrong and arguments.write):
        nbformat.write(notebook, DEMO if arguments.write else BUILD / "demo.ipynb")
    print("The same as a page: build/demo.html")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
