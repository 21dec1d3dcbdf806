"""Every kind of layer, loss and operation comes out of ``%%gradcheck`` as it must."""

from __future__ import annotations

import pytest
import sweep

PROGRAMS = list(sweep.programs())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("program", "allowed"), [p[1:] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS]
)
def test_it_comes_out_as_it_must(program, allowed):
    verdicts = sweep.settle(program)
    assert verdicts
    assert {v.verdict: v.reason for v in verdicts if v.verdict not in allowed} == {}


def test_there_are_programs_enough():
    names = [name for name, _, _ in PROGRAMS]
    assert len(names) == len(set(names))
    assert len(names) > 120


def test_a_wrong_gradient_would_be_noticed():
    def program():
        x = sweep.leaf(sweep.X2)
        y = x.sigmoid()
        root = sweep.weighted(y)
        y.data.zero_()
        return root

    assert {v.verdict for v in sweep.settle(program)} == {"wrong"}
