"""demo.ipynb, run in a real kernel, shows what its text promises, and is stored as it runs."""

from __future__ import annotations

import nbformat
import pytest
from notebooks import RAISES, error, found, printed, report, reports, script

pytestmark = pytest.mark.kernel
demo = script("run_demo")


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(demo.DEMO, as_version=4)


@pytest.fixture(scope="module")
def executed():
    fresh = nbformat.read(demo.DEMO, as_version=4)
    for cell in demo.code_cells(fresh):
        cell.outputs = []
    return demo.run_notebook(fresh)


@pytest.fixture
def the(executed):
    """Return the one cell that holds a text."""

    def the(text):
        (only,) = [c for c in demo.code_cells(executed) if text in c.source]
        return only

    return the


def test_it_has_no_complaints(executed):
    assert list(demo.complaints(executed)) == []


def test_printing_data_does_not_freeze_the_weight(the):
    lines = printed(the("for epoch")).splitlines()
    weights = [float(line.partition("[[")[2].rstrip("])")) for line in lines]
    assert len(weights) == len(set(weights)) == 10
    assert abs(weights[-1] - 3) < abs(weights[0] - 3)


def test_the_note_says_that_printing_is_harmless(the):
    cell = the("for epoch")
    assert found(cell) == [("AGW101", 6)]
    for kind in ("text/plain", "text/html"):
        assert "Harmless: looking at values freezes nothing" in report(cell)[kind]


def test_weights_are_reported_as_written_and_with_a_gradient(the):
    assert "model.fc1.weight  " in report(the("for epoch"))["text/plain"]
    assert "written in place, grad new" in report(the("for epoch"))["text/plain"]


@pytest.mark.parametrize(
    ("spelling", "line", "cause"),
    [("y.detach()", 3, "y.detach()"), ("y.clone()", 1, "with torch.no_grad()")],
)
def test_backward_from_a_cut_tensor_raises_and_the_cut_is_named(the, spelling, line, cause):
    cell = the(f"z = {spelling}")
    assert "does not require grad" in error(cell)
    assert found(cell) == [("AGW401", line)]
    text = report(cell)["text/plain"]
    assert f"`z` has no graph: it was lost at `{cause}`" in text
    assert "from z, which has no graph" in text
    assert "grad still None: x" in text
    assert printed(the("print(x.grad)")) == "None\n"


def test_a_write_through_data_gives_a_silently_wrong_gradient(the):
    cell = the("x.data += 1\nloss.backward()\nprint")
    assert printed(cell) == "x.grad is 27.0 and should be 12.0\n"
    assert found(cell) == [("AGW105", 3)]
    assert "leaves behind it: `x`" in report(cell)["text/plain"]


def test_the_same_write_through_detach_raises_and_the_write_is_named(the):
    cell = the("x.detach().add_(1)")
    assert "modified by an inplace operation" in error(cell)
    assert found(cell) == [("AGW403", 3)]


def test_what_explains_an_error_stands_right_under_it(the):
    for text in ("z = y.detach()", "z = y.clone()", "x.detach().add_(1)"):
        cell = the(text)
        assert [output.output_type for output in cell.outputs] == ["error", "display_data"]
        assert report(cell)["text/plain"].splitlines()[1].startswith("  wrong AGW4")


def test_gradcheck_proves_a_training_step_right(the):
    text = report(the("%%gradcheck\noptimizer"))["text/plain"]
    assert "gradients of loss (backward at line 4): 2 right" in text
    assert "right  model.fc1.weight, model.fc1.bias" in text


def test_gradcheck_proves_the_overwrite_wrong_and_says_the_true_gradient(the):
    cell = the("%%gradcheck\nx = torch.tensor")
    assert found(cell) == [("AGW105", 4)]
    assert "wrong  x (off by 5.6e-01; norm 27 / 12)" in report(cell)["text/plain"]


def test_gradcheck_calls_a_detach_by_design(the):
    cell = the("target = (w * 3).detach()")
    assert found(cell) == []
    assert "by design  w: the full derivative differs by 150.0%" in report(cell)["text/plain"]


def test_gradcheck_proves_a_custom_backward_wrong(the):
    cell = the("class Cube")
    assert found(cell) == [("AGW502", 9)]
    assert "Cube.backward is not the derivative of Cube.forward" in report(cell)["text/plain"]


def test_stored_outputs_are_those_of_a_run(executed, stored):
    for now, then in zip(demo.code_cells(executed), demo.code_cells(stored), strict=True):
        assert list(map(dict, reports(now))) == list(map(dict, reports(then))), "make demo, --write"
        assert printed(now) == printed(then)


def test_stored_outputs_hold_no_timings_and_no_paths_of_a_machine(stored):
    assert list(demo.complaints(stored)) == []
    for cell in demo.code_cells(stored):
        assert set(cell.metadata) <= {"tags"}
    assert set(stored.metadata.language_info) == {"name"}


def test_it_complains_of_an_error_a_missing_error_a_path_and_a_broken_report(stored):
    cells = [
        nbformat.v4.new_code_cell("1/0", outputs=[_output("error", evalue="no", ename="E")]),
        nbformat.v4.new_code_cell("1", metadata={"tags": [RAISES]}),
        nbformat.v4.new_code_cell("1", outputs=[_output("stream", text=str(demo.ROOT))]),
        nbformat.v4.new_code_cell(
            "1", outputs=[_output("stream", text="this report is incomplete")]
        ),
    ]
    assert [
        line.split(":")[0] for line in demo.complaints(nbformat.v4.new_notebook(cells=cells))
    ] == [
        "cell 1 raises",
        "cell 2 should raise, and does not",
        "the report of cell 4 is incomplete",
        "an output holds a path of this machine",
    ]


def _output(kind, **fields):
    return nbformat.v4.new_output(kind, **fields)
