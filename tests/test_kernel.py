"""In a real kernel: where a report appears, of what kinds it is, and when there is none."""

from __future__ import annotations

import queue

import pytest
from jupyter_client.manager import KernelManager
from notebooks import (
    MIME_JSON,
    RAISES,
    cell,
    error,
    found,
    printed,
    report,
    reports,
    run_cells,
    script,
)

pytestmark = pytest.mark.kernel

DATASET = """\
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __init__(self):
        self.values = torch.arange(8.0, requires_grad=True)
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return self.values.data[index] ** 2
loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork")
total = sum(float(batch.sum()) for batch in loader)
print(total)"""


@pytest.fixture(scope="module")
def odd():
    """Cells by name, after one run of them all."""
    sources = {
        "read": cell("w = torch.ones(2, requires_grad=True)\nprint(w.data)\nw.data * 2"),
        "raising": cell("w.data.mul_(2)\nraise ValueError('mine')", RAISES),
        "syntax": cell("w.data = = 1", RAISES),
        "async": cell("import asyncio\nawait asyncio.sleep(0)\nprint(w.data)"),
        "clear": cell(
            "from IPython.display import clear_output\nprint(w.data)\nclear_output()\nprint('after')"
        ),
        "workers": cell(DATASET),
        "no workers": cell("batch = next(iter(DataLoader(Squares(), batch_size=2)))"),
        "html": cell("o = {'<b>': w}\nprint(o['<b>'].data)"),
        "quiet": cell("1 + 1"),
        "last": cell("print(w.data)"),
    }
    return dict(zip(sources, run_cells(*sources.values()), strict=True))


def test_a_report_is_one_bundle_of_text_html_and_json(odd):
    bundle = report(odd["read"])
    assert set(bundle) == {"text/plain", "text/html", MIME_JSON}
    assert "\x1b" not in bundle["text/plain"]
    assert bundle["text/html"].startswith("<div class='agw'>")
    assert bundle[MIME_JSON]["version"] == 1
    first = bundle[MIME_JSON]["findings"][0]
    assert (first["code"], first["line"], first["column"]) == ("AGW101", 2, 6)


def test_the_report_is_the_last_output_of_its_cell(odd):
    assert [output.output_type for output in odd["read"].outputs] == [
        "stream",
        "execute_result",
        "display_data",
    ]


def test_nothing_is_written_to_stderr(odd):
    assert {name: printed(c, "stderr") for name, c in odd.items()} == dict.fromkeys(odd, "")


def test_a_raising_cell_has_its_own_error_and_then_a_report(odd):
    assert error(odd["raising"]) == "mine"
    assert odd["raising"].outputs[-1].data == report(odd["raising"])
    assert found(odd["raising"]) == [("AGW102", 1)]


def test_a_syntax_error_is_left_alone(odd):
    assert "invalid syntax" in error(odd["syntax"])
    assert reports(odd["syntax"]) == []


def test_top_level_await_is_watched(odd):
    assert found(odd["async"]) == [("AGW101", 3)]


def test_a_report_survives_clear_output(odd):
    assert printed(odd["clear"]) == "after\n"
    assert found(odd["clear"]) == [("AGW101", 2)]


def test_forked_workers_are_silent_and_unharmed(odd):
    assert printed(odd["workers"]) == "140.0\n"
    assert all(shown[MIME_JSON]["findings"] == [] for shown in reports(odd["workers"]))
    # The same code is watched where it runs in the kernel itself.
    assert len(found(odd["no workers"])) == 1


def test_text_of_the_user_is_escaped_in_the_html(odd):
    assert "<b>&#x27;]" not in report(odd["html"])["text/html"]
    assert "&lt;b&gt;" in report(odd["html"])["text/html"]


def test_a_cell_without_tensors_has_no_report(odd):
    assert reports(odd["quiet"]) == []
    assert found(odd["last"]) == [("AGW101", 1)]


def test_a_failing_gradcheck_cell_stops_the_notebook():
    from nbclient.exceptions import CellExecutionError

    cells = [cell("%%gradcheck\nraise RuntimeError('stop here')"), cell("reached = True")]
    with pytest.raises(CellExecutionError, match="stop here"):
        run_cells(*cells)
    assert cells[1].execution_count is None


def test_requests_that_are_not_in_the_history_get_no_report():
    with _kernel() as client:
        shown = {
            "noted": _messages(client, "print(w.data)"),
            "silent": _messages(client, "print(w.data)", silent=True),
            "unstored": _messages(client, "print(w.data)", store_history=False),
            "noted again": _messages(client, "print(w.data)"),
        }
    assert {name: MIME_JSON in str(messages) for name, messages in shown.items()} == {
        "noted": True,
        "silent": False,
        "unstored": False,
        "noted again": True,
    }


class _kernel:
    """A kernel with the extension and a leaf ``w``, spoken to message by message."""

    def __enter__(self):
        self._manager = KernelManager(kernel_spec_manager=script("run_demo").ThisPython())
        self._manager.start_kernel()
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        _messages(self._client, "%load_ext ipy_autogradwatch\nimport torch")
        _messages(self._client, "w = torch.ones(2, requires_grad=True)")
        return self._client

    def __exit__(self, *error):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _messages(client, code, **options):
    """Return what the kernel published while it ran *code*."""
    request = client.execute(code, **options)
    published = []
    while True:
        try:
            message = client.get_iopub_msg(timeout=60)
        except queue.Empty:
            pytest.fail("the kernel does not answer")
        if message["parent_header"].get("msg_id") != request:
            continue
        published.append(message["content"])
        if message["content"].get("execution_state") == "idle":
            return published
