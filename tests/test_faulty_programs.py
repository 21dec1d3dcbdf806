"""A fault is blamed on its line, in whatever spelling, cell, function or class it stands.

Each program in ``faulty`` has one fault. The comment ``# blame`` ends the line at which the
alarm must stand; no other line may be alarmed.
"""

from __future__ import annotations

import pytest
from programs import alarms, cells_of, programs, watch

PROGRAMS = programs("faulty")


def blamed(cells):
    """Return cell and line of each line that ends in ``# blame``."""
    return {
        (number, line)
        for number, cell in enumerate(cells, 1)
        for line, text in enumerate(cell.splitlines(), 1)
        if text.endswith("# blame")
    }


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_line_of_the_fault_is_alarmed_and_no_other(path):
    cells = cells_of(path)
    reports, _, failures = watch(cells)
    assert failures == []
    assert {(cell, line) for _, cell, line in alarms(reports)} == blamed(cells)


def test_each_has_one_line_to_blame_and_says_what_is_wrong():
    assert len(PROGRAMS) >= 25
    for path in PROGRAMS:
        assert path.read_text(encoding="utf-8").startswith("# faulty: ")
        assert len(blamed(cells_of(path))) == 1


REPAIRS = [
    ("uncleared_in_function", "loss.backward()", "opt.zero_grad(); loss.backward()"),
    ("uncleared_second_optimizer", "opt_e.zero_grad()", "opt_e.zero_grad(); opt_d.zero_grad()"),
    ("head_cut_by_data_trained", "torch.relu(enc(x)).data", "torch.relu(enc(x))"),
    ("penalty_from_numpy", "torch.tensor(np.abs(out.data.numpy()).mean())", "out.abs().mean()"),
    ("decay_through_data", "net.weight.data", "net.weight"),
    ("penalty_without_create_graph", "retain_graph=True", "create_graph=True"),
    ("generator_clipped_in_loop", "net.parameters()\nfor", "list(net.parameters())\nfor"),
    ("module_not_frozen", "backbone.requires_grad = False", "backbone.requires_grad_(False)"),
    ("gradient_alias_in_loop", "prev = w.grad", "prev = w.grad.clone()"),
]


@pytest.mark.parametrize(("name", "old", "new"), REPAIRS, ids=lambda value: value[:28])
def test_the_program_put_right_is_alarmed_nowhere(name, old, new):
    (path,) = [path for path in PROGRAMS if path.stem == name]
    cells = [cell.replace(old, new) for cell in cells_of(path)]
    assert cells != cells_of(path)
    reports, errors, _ = watch(cells)
    assert errors == [None] * len(cells)
    assert alarms(reports) == []
