"""``%%gradcheck`` settles each gradient: right, wrong with its cause, or why it cannot."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from support import run, run_failing

import ipy_autogradwatch as aw

X = "import torch\nx = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\n"


def settle(shell, cell, options=""):
    """Run a checked *cell*; return (leaf, verdict, cause, lines to blame) of each verdict."""
    run(shell, f"%%gradcheck {options}\n{cell}")
    return [
        (v.leaf, v.verdict, v.cause, [line for _, line in v.blame])
        for v in aw.last_report().verdicts
    ]


def verdict_of(shell, cell, options=""):
    (only,) = settle(shell, X + cell, options)
    return only[1:]


RIGHT = {
    "product": "(x * x.sin()).sum().backward()",
    "twice": "y = x.exp().sum()\ny.backward(retain_graph=True)\ny.backward()",
    "grad": "torch.autograd.grad((x**3).sum(), x)",
    "penalty": "g, = torch.autograd.grad((x**3).sum(), x, create_graph=True)\n"
    "g.square().sum().backward()",
    "in place on a view": "y = x * 2\ny[0].mul_(3)\ny.sum().backward()",
    "written row by row": "b = torch.zeros(3)\nfor i in range(3):\n    b[i] = x[i] ** 2\n"
    "b.sum().backward()",
    "in-place relu": "y = (x - 2.1)\ny.relu_()\n(y * x).sum().backward()",
    "weights of the root": "(x * x).backward(torch.tensor([1.0, 2.0, 3.0]))",
    "two roots": "torch.autograd.backward([(x * 2).sum(), (x * x).sum()])",
    "func": "(torch.func.grad(lambda t: (t**3).sum())(x) * x).sum().backward()",
    "checkpoint": "from torch.utils.checkpoint import checkpoint\n"
    "checkpoint(lambda t: t.tanh(), x, use_reentrant=False).sum().backward()",
    "reentrant checkpoint": "from torch.utils.checkpoint import checkpoint\n"
    "checkpoint(lambda t: t.tanh(), x, use_reentrant=True).sum().backward()",
    "dropout": "torch.nn.functional.dropout(x * x, 0.5).sum().backward()",
    "complex": "(torch.complex(x, x * 2) ** 2).abs().sum().backward()",
    "unbind": "a, b, c = x.unbind()\n(a * b * c).backward()",
    "unsafe split": "a, b = (x * 2).unsafe_split(2)\n(a.sum() * b.sin().sum()).backward()",
    "out=": "b = torch.empty(3)\nwith torch.no_grad():\n    torch.mul(x, 2, out=b)\n"
    "(x * 2).sum().backward()",
    "set by nothing": "y = x.clone()\ny.zero_()\n(y + x).sum().backward()",
}


@pytest.mark.parametrize("cell", RIGHT.values(), ids=RIGHT)
def test_a_right_gradient_is_right(watcher, shell, cell):
    found = settle(shell, X + cell)
    assert found
    assert {verdict for _, verdict, _, _ in found} == {"right"}


WRONG = {
    "saved, then overwritten": ("b = x.sigmoid()\ns = b.sum()\nb.data.zero_()\ns.backward()", "write", [6]),
    "edited, then used": ("b = x * x\nb.data.clamp_(0, 2)\n(b * x).sum().backward()", "write", [5]),
    "leaf overwritten": ("y = (x * x).sum()\nx.data.mul_(5)\ny.backward()", "write", [5]),
    "leaf overwritten by an item": ("y = (x * x).sum()\nx.data[0] = 5\ny.backward()", "write", [5]),
    "part through data": ("y = x**2\n(y.data * x).sum().backward()", "data", [5]),
    "written through numpy": (
        "y = x.exp()\nloss = y.sum()\na = y.detach().numpy()\na /= 2.0\nloss.backward()",
        "outside",
        [6],
    ),
    "part through getattr": ("d = (x**2).data\nz = d + 1\n(z * x).sum().backward()", "data", [4]),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "cause", "lines"), WRONG.values(), ids=WRONG)
def test_a_wrong_gradient_is_wrong_at_its_line(watcher, shell, cell, cause, lines):
    assert verdict_of(shell, cell) == ("wrong", cause, lines)


def test_it_says_by_how_much(watcher, shell):
    run(shell, f"%%gradcheck\n{X}y = x**2\nloss = (y.data * x).sum()\nloss.backward()")
    (verdict,) = aw.last_report().verdicts
    assert verdict.root == "loss"
    assert verdict.relative_error == pytest.approx(2 / 3)
    delivered, true = torch.tensor([1.0, 4.0, 9.0]), torch.tensor([3.0, 12.0, 27.0])
    assert verdict.autograd_norm == pytest.approx(float(delivered.norm()))
    assert verdict.true_norm == pytest.approx(float(true.norm()))
    assert verdict.worst == "x[2] delivered 9, true 27"
    assert verdict.shares == (1.0,)


def test_two_causes_have_a_share_each(watcher, shell):
    cell = "a = (x**2).data\nb = (x**3).data\n((a + b) * x).sum().backward()"
    run(shell, f"%%gradcheck\n{X}{cell}")
    (verdict,) = aw.last_report().verdicts
    assert {line for _, line in verdict.blame} == {4, 5}
    assert sum(verdict.shares) == pytest.approx(1, abs=0.1)
    assert verdict.blame[0][1] == 5


BY_DESIGN = {
    "detach": "y = x**2\n(y.detach() * x).sum().backward()",
    "no_grad": "with torch.no_grad():\n    y = x**2\n(y * x).sum().backward()",
    "straight through": "q = x * 0.3\n((q + (q.round() - q).detach()) ** 2).sum().backward()",
    "hook": "x.register_hook(lambda g: g * 2)\n(x * 3).sum().backward()",
    "whole part through data": "w = torch.ones(3, requires_grad=True)\n(x.data * w).sum().backward()",
}


@pytest.mark.parametrize("cell", BY_DESIGN.values(), ids=BY_DESIGN)
def test_what_was_written_on_purpose_is_by_design(watcher, shell, cell):
    verdicts = {leaf: verdict for leaf, verdict, _, _ in settle(shell, X + cell)}
    assert verdicts["x"] == "by_design"
    assert aw.last_report().findings == () or all(
        f.severity == "note" for f in aw.last_report().findings
    )


UNDECIDED = {
    "kink": ("x = torch.zeros(3, requires_grad=True)\nx.relu().sum().backward()", "kink"),
    "number": ("q = x.sin().sum().item()\n(q * x).sum().backward()", "left as a Python number"),
    "numpy": (
        "y = x * 2\na = y.detach().numpy()\na *= 3.5\n(y * x).sum().backward()",
        "outside of PyTorch",
    ),
}


@pytest.mark.parametrize(("cell", "reason"), UNDECIDED.values(), ids=UNDECIDED)
def test_what_cannot_be_known_is_undecided_with_a_reason(watcher, shell, cell, reason):
    assert verdict_of(shell, cell)[0] == "undecided"
    assert reason in aw.last_report().verdicts[0].reason


def test_a_root_that_goes_through_rounding_only_is_vacuous(watcher, shell):
    assert verdict_of(shell, "x.round().sum().backward()")[0] == "vacuous"


FUNCTION = """
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return {forward}
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return {backward}

w = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
(3 * Own.apply(x, w)).sum().backward()
"""
RIGHT_FUNCTIONS = {
    "product": ("a * b", "g * b, g * a"),
    "sine": ("a.sin() * b", "g * a.cos() * b, g * a.sin()"),
    "division": ("a / b", "g / b, -g * a / b**2"),
    "exponential": ("(a * b).exp()", "g * b * (a * b).exp(), g * a * (a * b).exp()"),
    "in place": ("(a * b).mul_(2)", "2 * g * b, 2 * g * a"),
}
WRONG_FUNCTIONS = {
    "forgets the incoming gradient": ("a * b", "b, a"),
    "swapped": ("a * b * b", "g * 2 * a * b, g * b * b"),
    "a factor": ("a.square() * b", "g * a * b, g * a.square()"),
    "a sign": ("a / b", "g / b, g * a / b**2"),
    "the derivative of something else": ("a.sin() * b", "g * a.sin() * b, g * a.sin()"),
    "none for an input": ("a * b", "g * b, None"),
    "zeros": ("a * b", "torch.zeros_like(a), g * a"),
    "of the value, not of the input": ("(a * b).exp()", "g * b, g * a"),
    "detached twice": ("a + b.square()", "g, g * b"),
    "mean for sum": ("a * b", "g * b / 3, g * a / 3"),
}


@pytest.mark.parametrize(("forward", "backward"), RIGHT_FUNCTIONS.values(), ids=RIGHT_FUNCTIONS)
def test_a_right_custom_function_is_right(watcher, shell, forward, backward):
    found = settle(shell, X + FUNCTION.format(forward=forward, backward=backward))
    assert [verdict for _, verdict, _, _ in found] == ["right", "right"]


@pytest.mark.parametrize(("forward", "backward"), WRONG_FUNCTIONS.values(), ids=WRONG_FUNCTIONS)
def test_a_wrong_custom_function_is_wrong_at_its_backward(watcher, shell, forward, backward):
    found = settle(shell, X + FUNCTION.format(forward=forward, backward=backward))
    wrong = [(cause, lines[0]) for _, verdict, cause, lines in found if verdict == "wrong"]
    assert wrong
    assert set(wrong) == {("function", 11)}
    assert [(f.code, f.line) for f in aw.last_report().findings] == [("AGW502", 11)]


SURROGATES = {
    "reversal": ("a.view_as(a)", "-g, None"),
    "rounding": ("a.round()", "g, None"),
    "sign": ("(a > b).float()", "g, -g"),
}


@pytest.mark.parametrize(("forward", "backward"), SURROGATES.values(), ids=SURROGATES)
def test_a_surrogate_gradient_is_by_design(watcher, shell, forward, backward):
    found = settle(shell, X + FUNCTION.format(forward=forward, backward=backward))
    assert "by_design" in {verdict for _, verdict, _, _ in found}
    assert "wrong" not in {verdict for _, verdict, _, _ in found}


NOT_FINITE = {
    "where": ("y = torch.where(x > 2, (x - 2).sqrt(), x)\ny.sum().backward()", 4),
    "norm at zero": ("y = x - x.detach()\nn = y.square().sum().sqrt()\nn.backward()", 5),
    "log at zero": ("m = (x > 1.5).float()\ny = (x * m).log()\n(y * m).nan_to_num(0, 0, 0).sum().backward()", 5),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "line"), NOT_FINITE.values(), ids=NOT_FINITE)
def test_the_operation_that_made_nan_is_named(watcher, shell, cell, line):
    run(shell, f"%%gradcheck\n{X}{cell}")
    assert [(f.code, f.line) for f in aw.last_report().findings if f.severity == "wrong"] == [
        ("AGW503", line)
    ]


def test_forward_and_backward_may_stand_in_two_cells(watcher, shell):
    settle(shell, X + "y = x**2\nloss = (y.data * x).sum()")
    ((leaf, verdict, cause, lines),) = settle(shell, "loss.backward()")
    assert (leaf, verdict, cause, lines) == ("x", "wrong", "data", [5])


def test_a_root_from_a_cell_that_was_not_checked_is_undecided(watcher, shell):
    run(shell, X + "loss = (x * x).sum()")
    settle(shell, "loss.backward()")
    (verdict,) = aw.last_report().verdicts
    assert verdict.verdict == "undecided"
    assert "not checked" in verdict.reason


LOOP = (
    "import torch\nm = torch.nn.Linear(3, 2)\nopt = torch.optim.Adam(m.parameters())\n"
    "for _ in range(5):\n    opt.zero_grad()\n    loss = m(torch.ones(4, 3)).square().mean()\n"
    "    loss.backward()\n    opt.step()"
)


def test_the_first_backwards_of_a_loop_are_settled_and_the_rest_is_said(watcher, shell):
    found = settle(shell, LOOP, "--backwards 2")
    assert [verdict for _, verdict, _, _ in found] == ["right"] * 4
    assert any("first 2 backwards" in cut for cut in aw.last_report().cuts)


def test_leaves_and_roots_can_be_chosen(watcher, shell):
    assert [leaf for leaf, *_ in settle(shell, LOOP, "--backwards 9 --wrt m.bias")] == [
        "m.bias"
    ] * 5
    assert settle(shell, LOOP, "--of other") == []


@pytest.mark.parametrize(
    "options", ["--no-numeric", "--directions 3", "--tolerance 1e-2", "--full"]
)
def test_options_are_taken(watcher, shell, options):
    assert verdict_of(shell, "(x * x).sum().backward()", options)[0] == "right"


@pytest.mark.parametrize(
    "options", ["--backwards -1", "--backwards x", "--nothing", "--tolerance a"]
)
def test_bad_options_are_refused_in_one_line(watcher, shell, options):
    error, _ = run_failing(shell, f"%%gradcheck {options}\n1")
    assert "as in: %%gradcheck" in str(error)
    assert "\n" not in str(error)


# Nothing changes, and nothing stays.


def test_too_large_is_undecided(watcher, shell):
    watcher.settings.max_tape_bytes = 10
    assert verdict_of(shell, "(x * x).sum().backward()")[0] == "undecided"
    assert "max_tape_bytes" in aw.last_report().verdicts[0].reason


def test_the_numbers_are_those_of_a_plain_cell(shell, watcher):
    cell = "import torch\ntorch.manual_seed(0)\n" + LOOP + "\nd = torch.rand(3)"
    run(shell, cell)
    plain = [p.detach().clone() for p in shell.user_ns["m"].parameters()], shell.user_ns["d"]
    run(shell, "%%gradcheck\n" + cell)
    assert all(map(torch.equal, plain[0], shell.user_ns["m"].parameters()))
    assert torch.equal(plain[1], shell.user_ns["d"])


@pytest.mark.parametrize(
    "cell",
    ["x @ torch.ones(4)", "def f(t):\n    return t @ torch.ones(4)\nf(x * 2)", "x.backward()"],
)
def test_a_traceback_is_that_of_a_plain_cell(shell, watcher, cell, capsys):
    run(shell, X)
    capsys.readouterr()
    run_failing(shell, "\n" + cell)
    plain = capsys.readouterr().out
    run_failing(shell, "%%gradcheck\n" + cell)
    checked = capsys.readouterr().out

    def frames(text):
        return [line.split(" in ")[-1] for line in text.splitlines() if line.startswith("File ")]

    assert "prove" not in checked
    assert len(frames(plain)) == len(frames(checked))
    assert shell.custom_exceptions == ()


def test_nothing_in_torch_stays_patched(shell, watcher):
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    before = torch.autograd._engine_run_backward
    for cell in ("(x * x).sum().backward()", "1 / 0", LOOP, "%unload_ext ipy_autogradwatch"):
        shell.run_cell(f"%%gradcheck --backwards 1\n{X}{cell}", store_history=True)
        assert torch.autograd._engine_run_backward is before
        assert _get_current_dispatch_mode_stack() == []


def test_tensors_die_when_they_would(shell, watcher):
    run(shell, f"%%gradcheck\n{X}y = x * 2\nz = y.exp()\nz.sum().backward()")
    kept = [weakref.ref(shell.user_ns[name]) for name in ("y", "z")]
    run(shell, "del y, z")
    gc.collect()
    assert [ref() for ref in kept] == [None, None]
    assert watcher._proof._recorder.tape.entries == []


def test_a_long_loop_without_a_backward_keeps_little(shell, watcher):
    cell = X + "for _ in range(200):\n    y = (x * 2).exp().sum()\n"
    run(shell, "%%gradcheck\n" + cell)
    assert len(watcher._proof._recorder.tape.entries) < 20


# How far it is, and enough of it.


class Publisher:
    """Stands for the display publisher of a kernel."""

    def __init__(self):
        self.said = []

    def publish(self, data, metadata=None, transient=None, update=False, **_):
        if transient:
            self.said.append((data["text/plain"], update))


def test_a_long_check_says_how_far_it_is_and_takes_it_away(shell, watcher, monkeypatch):
    from ipy_autogradwatch.notebook import progress
    from ipy_autogradwatch.prove import check

    publisher = Publisher()
    monkeypatch.setattr(check, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "is_kernel", lambda shell: True)
    monkeypatch.setattr(shell, "display_pub", publisher)
    settle(shell, LOOP, "--backwards 3")
    assert publisher.said == [
        ("autogradwatch: 1 of at most 3 backwards settled", False),
        ("autogradwatch: 2 of at most 3 backwards settled", True),
        ("", True),
    ]


def test_a_short_check_says_nothing_of_the_kind(shell, watcher, monkeypatch):
    from ipy_autogradwatch.notebook import progress

    publisher = Publisher()
    monkeypatch.setattr(progress, "is_kernel", lambda shell: True)
    monkeypatch.setattr(shell, "display_pub", publisher)
    settle(shell, X + "(x * x).sum().backward()")
    assert publisher.said == []


def test_an_interrupt_of_the_check_keeps_the_cell_and_what_was_settled(shell, watcher, monkeypatch):
    from ipy_autogradwatch.prove import check

    judge, calls = check.judge, []

    def impatient(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return judge(*arguments, **options)

    monkeypatch.setattr(check, "judge", impatient)
    found = settle(shell, LOOP + "\nend = 1")
    assert shell.user_ns["end"] == 1
    assert [verdict for _, verdict, _, _ in found] == ["right", "right"]
    assert any("interrupted" in cut for cut in aw.last_report().cuts)
    assert len(calls) == 2
    assert settle(shell, X + "(x * x).sum().backward()")[0][1] == "right"
