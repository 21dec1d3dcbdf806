"""A sound program gets no alarm, whatever it does on purpose.

The programs in ``sound`` are what people write: tutorials of all years, target networks,
adversarial and self-supervised training, reinforcement learning, meta-learning. Each runs cell
by cell in a watched shell. A note may stand at any line; ``wrong`` and ``risky`` may not.
"""

from __future__ import annotations

import pytest
from programs import alarms, cells_of, programs, watch

from ipy_autogradwatch.observe import backward_sites
from ipy_autogradwatch.rules import grad_accumulated

PROGRAMS = programs("sound")

WRONG = "w = torch.ones(2, requires_grad=True)\nl = (w * w).sum()\nw.data.mul_(2)\nl.backward()"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_sound_program_gets_no_alarm_and_a_report_below_every_cell(path):
    cells = cells_of(path)
    reports, errors, failures = watch(cells)
    assert errors == [None] * len(cells)
    assert [report.cell for report in reports] == list(range(1, len(cells) + 1))
    assert failures == []
    assert [failure for report in reports for failure in report.failures] == []
    assert alarms(reports) == []


def test_an_alarm_would_be_noticed():
    reports, _, _ = watch(["import torch", WRONG])
    assert alarms(reports) == [("AGW105", 2, 3)]


def test_there_are_programs_enough_and_each_says_what_it_is():
    assert len(PROGRAMS) >= 70
    for path in PROGRAMS:
        assert path.read_text(encoding="utf-8").startswith("# sound: ")
        assert len(cells_of(path)) > 1


FAULTS = [
    # name of the program, a piece of it, what takes its place, who must say so
    ("classifier_variable_era", "        optimizer.zero_grad()\n", "", "AGW301"),
    ("dqn_target_network", "    optimizer.zero_grad()\n", "", "AGW301"),
    ("helper_with_step_function", "    opt.zero_grad()\n", "", "AGW301"),
    ("gradient_accumulation_places", "        opt.zero_grad()\n", "", "AGW301"),
    ("parameters_gone_through_twice", "    params = list(params)\n", "", "AGW308"),
    ("gan_one_cell", "output = D(fake).view(-1)", "output = D(fake.detach()).view(-1)", "AGW202"),
    ("vae_reparametrisation", "bce + kl_weight * kl", "bce + kl.data", "AGW206"),
    ("wgan_gradient_penalty", "mixed, create_graph=True", "mixed, retain_graph=True", "AGW204"),
    ("truncated_bptt_three_spellings", "h = h.detach()", "h.detach()", "AGW404"),
    ("custom_functions", "a -= 1e-3 * a.grad", "a = a - 1e-3 * a.grad", "AGW410"),
    ("names_that_look_alike", "out.sum()", "w.requires_grad = False\nout.sum()", "AGW305"),
]


@pytest.mark.parametrize(("name", "old", "new", "code"), FAULTS, ids=lambda value: value[:24])
def test_the_same_program_with_a_fault_in_it_is_alarmed(name, old, new, code):
    (path,) = [path for path in PROGRAMS if path.stem == name]
    cells = [(cell + "\n").replace(old, new) for cell in cells_of(path)]
    assert cells != [cell + "\n" for cell in cells_of(path)]
    reports, _, _ = watch(cells)
    assert code in [alarm[0] for alarm in alarms(reports)]


def test_the_rule_on_uncleared_gradients_trusts_no_more_looks_than_are_taken():
    assert grad_accumulated.SAMPLED <= backward_sites.CHECKS
