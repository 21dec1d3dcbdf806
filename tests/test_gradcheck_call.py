"""``%gradcheck f(x)`` settles whether the gradients of a call are its derivatives."""

import random

import numpy
import pytest
import torch
from IPython.core.error import UsageError
from support import run, run_failing

START = """
import torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
w = torch.tensor([[1.0, -2.0, 4.0], [0.5, 3.0, -1.0]], requires_grad=True)

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g

class WrongAtOne(torch.autograd.Function):
    '''x * w, with a backward that is wrong in one element of w.'''
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        to_w = g * x
        to_w[1, 2] *= 3
        return (g * w).sum(0), to_w

class Restless(torch.autograd.Function):
    '''A backward that gives another gradient each time.'''
    calls = 0
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, g):
        Restless.calls += 1
        return g * Restless.calls

def cut(v):
    return (v.data * 3).sum()

def boom(v):
    raise KeyError("mine")
"""


@pytest.fixture
def check(watcher, shell, capsys):
    """Return what ``%gradcheck`` prints for a call, in lines without their indent."""
    run(shell, START)

    def check(call, *before):
        run(shell, *before)
        capsys.readouterr()
        run(shell, f"%gradcheck {call}")
        said = [line.strip() for line in capsys.readouterr().out.splitlines()]
        assert said[0] == f"%gradcheck {call}"
        return said[1:]

    return check


RIGHT = "right: backward agrees with finite differences for "
WRONG = "wrong: backward disagrees with finite differences for "
PROMOTED = "(x checked in double precision)"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("Square.apply(x)", [RIGHT + "x", PROMOTED]),
        ("x.sin()", [RIGHT + "x", PROMOTED]),
        ("torch.sin(input=x)", [RIGHT + "input", "(input checked in double precision)"]),
        ("x.double().sin()", [RIGHT + "x.double()"]),
        ("torch.nn.functional.linear(x, weight=w)", [RIGHT + "x, weight"]),
        ("x.softmax(dim=0)", [RIGHT + "x", PROMOTED]),
        ("torch.where(x > 0, x, x * 2)", [RIGHT]),
        ("torch.topk(x, k=2)", [RIGHT + "x", PROMOTED]),
    ],
)
def test_a_right_gradient_is_right(check, call, said):
    answer = check(call)
    assert all(line.startswith(expected) for line, expected in zip(answer, said, strict=False))
    assert len(answer) >= len(said)


def test_an_answer_has_nothing_else_in_it(check):
    assert check("Square.apply(x)") == [RIGHT + "x", PROMOTED]


def test_a_wrong_gradient_is_shown_where_it_is_worst(check):
    assert check("WrongAtOne.apply(x, w)") == [
        WRONG + "w",
        "worst at d result[1, 2] / d w[1, 2]:",
        "backward             9",
        "finite differences   3",
        "(x, w checked in double precision)",
    ]


def test_the_derivative_of_a_number_is_not_weighted(check):
    wrong = (
        "class Doubled(torch.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, x: x.sum())\n"
        "    backward = staticmethod(lambda ctx, g: (g * 2).expand(3))"
    )
    answer = check("Doubled.apply(x)", wrong)
    assert answer[0] == WRONG + "x"
    assert answer[1].startswith("worst at x[")
    assert answer[2:4] == ["backward             2", "finite differences   1"]


def test_named_arguments_are_named(check):
    define = "def f(a, b): return WrongAtOne.apply(a, b)"
    answer = check("f(b=w, a=x)", define)
    assert answer[0] == WRONG + "b"
    assert answer[1] == "worst at d result[1, 2] / d b[1, 2]:"


def test_a_name_that_is_a_parameter_as_well_is_not_mistaken(check):
    define = "def f(a, x): return a * 2 + WrongAtOne.apply(a, x)"
    assert check("f(x, x=w)", define)[0] == WRONG + "x"


def test_an_argument_without_a_name_is_called_by_its_parameter(check):
    assert check("f(w * 2)", "def f(weights): return weights ** 3")[0] == RIGHT + "weights"


def test_only_what_requires_grad_is_checked_if_anything_does(check):
    assert check("x.mul(torch.ones(3))")[0] == RIGHT + "x"
    answer = check("torch.mul(torch.ones(3), torch.ones(3))")
    assert answer[0] == RIGHT + "argument 1, argument 2"
    assert "(no argument requires grad: all are checked)" in answer


def test_an_input_that_gets_zeros_is_named(check):
    answer = check("f(x, w)", "def f(x, w): return x * 2 + 0 * w")
    assert answer[0] == RIGHT + "x (all zero for w)"


def test_a_cut_is_wrong(check):
    assert check("cut(x)")[:5] == [
        "wrong: the result changes with the inputs, but has no graph: something cut it",
        "worst at x[0]:",
        "backward             0",
        "finite differences   3",
        PROMOTED,
    ]


def test_a_partial_cut_is_wrong(check):
    answer = check("f(x)", "def f(x): return (x * x.detach()).sum()")
    assert answer[0] == WRONG + "x"
    assert answer[1] == "worst at x[2]:"
    assert answer[2:4] == ["backward             3", "finite differences   6"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("torch.argmax(x)", "the result is no tensor of floating-point numbers"),
        ("torch.round(x + 0.2)", "every derivative is zero"),
        ("torch.zeros_like(x)", "the result has no graph, and does not change with the inputs"),
        ("x.mul(0)", "every derivative is zero"),
        ("x.sum().item()", "the result is no tensor of floating-point numbers"),
    ],
)
def test_what_proves_nothing_is_vacuous(check, call, why):
    assert check(call)[0].startswith(f"vacuous: {why}")


@pytest.mark.parametrize(
    ("call", "before", "why"),
    [
        ("f(x)", "c = 0\ndef f(x):\n    global c\n    c += 1\n    return x * c", "two calls"),
        ("Restless.apply(x)", "1", "backward gives different gradients when it runs twice"),
        ("torch.log(x - 2)", "1", "the result contains NaN or Inf"),
        ("torch.relu(y)", "y = torch.zeros(2, requires_grad=True)", "there is a kink at y[1]"),
        (
            "f(x)",
            "m = torch.nn.Linear(3, 1)\ndef f(x): return m(x)",
            "the function works, but not on",
        ),
    ],
)
def test_what_cannot_be_settled_is_undecided(check, call, before, why):
    assert check(call, before)[0].startswith(f"undecided: {why}")


def test_random_numbers_are_the_same_in_every_call(check):
    answer = check("torch.nn.functional.dropout(x, 0.5)", "torch.manual_seed(1)")
    assert answer[0] == RIGHT + "x"
    assert "(it draws random numbers: the same ones in every call of this check)" in answer


@pytest.mark.parametrize("call", ["net(x)", "net.forward(x)"])
def test_a_module_is_checked_as_a_copy_in_double_precision(check, shell, call):
    answer = check(call, "net = torch.nn.Linear(3, 2)")
    assert answer == [RIGHT + "x", PROMOTED, "(the module is a copy in double precision)"]
    net = shell.user_ns["net"]
    assert net.weight.dtype == torch.float32
    assert net.weight.grad is None


def test_complex_numbers_are_checked_part_by_part(check):
    define = (
        "z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)\n"
        "class Half(torch.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, z: z.real + z.imag)\n"
        "    backward = staticmethod(lambda ctx, g: torch.complex(g, 0 * g))"
    )
    assert check("torch.abs(z)", define)[0] == RIGHT + "z"
    answer = check("Half.apply(z)")
    assert answer[0] == WRONG + "z"
    assert answer[1] == "worst at d result[1] / d z[1].imag:"
    assert answer[2:4] == ["backward             0", "finite differences   1"]


def test_whole_numbers_are_passed_on_as_they_are(check):
    define = "index = torch.tensor([0, 2])\ntable = torch.nn.functional.embedding"
    assert check("table(index, w.t())", define)[0].startswith(RIGHT)


def test_several_results_are_told_apart(check):
    define = "def f(x): return x * 2, {}, x.detach() * x"
    answer = check("f(x)", define)
    assert answer[0] == WRONG + "x"
    assert answer[1] == "worst at d result[1][2] / d x[2]:"


def test_a_large_input_is_checked_along_random_directions(check):
    answer = check("big.sin()", "big = torch.linspace(0, 1, 3000, requires_grad=True)")
    assert answer[0] == RIGHT + "big"
    assert "(checked along random directions, because it is large)" in answer


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "wants a call"),
        ("x", "wants a call, not 'x'"),
        ("f(x", "in 'f(x'"),
        ("x = 3", "in 'x = 3'"),
        ("int(3)", "no argument is a tensor of floating-point numbers"),
        ("torch.abs(torch.tensor([1, 2]))", "no argument is a tensor of floating-point numbers"),
    ],
)
def test_what_is_no_call_with_tensors_is_one_line_of_advice(check, shell, capsys, line, said):
    error, _ = run_failing(shell, f"%gradcheck {line}")
    assert isinstance(error, UsageError)
    (printed,) = capsys.readouterr().err.splitlines()
    assert said in printed
    assert "as in: %gradcheck f(x, weight=w)" in printed


def test_it_says_so_if_torch_is_not_imported(watcher, shell, monkeypatch):
    monkeypatch.setattr("ipy_autogradwatch.notebook.gradcheck_call.imported_torch", lambda: None)
    error, _ = run_failing(shell, "%gradcheck f(x)")
    assert "torch is not imported" in str(error)


@pytest.mark.parametrize("call", ["boom(x)", "nosuch(x)", "boom(nosuch)"])
def test_an_error_of_the_function_is_shown_without_our_frames(check, shell, capsys, call):
    error, report = run_failing(shell, f"%gradcheck {call}")
    printed = capsys.readouterr().out
    assert isinstance(error, (KeyError, NameError))
    assert report.failures == ()
    assert "call_check.py" not in printed
    assert "gradcheck_call.py" not in printed
    assert "magics.py" not in printed
    if call == "boom(x)":
        assert 'raise KeyError("mine")' in printed
    else:
        assert f"1 {call}" in printed


def test_nothing_of_the_users_is_touched(check, shell):
    x, w = shell.user_ns["x"], shell.user_ns["w"]
    x.grad = torch.full((3,), 7.0)
    seen = []
    x.register_hook(seen.append)
    before = (
        x.tolist(),
        x._version,
        w._version,
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpy.random.get_state()[1].tolist(),
    )
    noise = (
        "import random, numpy\n"
        "def noisy(x, w):\n"
        "    random.random(); numpy.random.rand(); x.mul_(1)\n"
        "    return torch.nn.functional.dropout(x * w)"
    )
    check("noisy(x.clone(), w)", noise)
    check("WrongAtOne.apply(x, w)")
    assert x.grad.tolist() == [7, 7, 7]
    assert w.grad is None
    assert seen == []
    after = (
        x.tolist(),
        x._version,
        w._version,
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpy.random.get_state()[1].tolist(),
    )
    assert after == before


def test_function_and_arguments_are_evaluated_once_and_in_order(check, shell):
    define = "seen = []\ndef log(name, value):\n    seen.append(name)\n    return value"
    check("log('f', torch.sin)(log('a', x))", define)
    assert shell.user_ns["seen"] == ["f", "a"]


def test_grad_mode_does_not_matter(check):
    check("Square.apply(x)", "torch.set_grad_enabled(False)")
    assert check("Square.apply(x)", "torch.set_grad_enabled(True)")[0] == RIGHT + "x"


def test_a_function_may_write_into_its_input(check):
    assert check("f(x)", "def f(x): return x.mul_(2).sin_()")[0] == RIGHT + "x"


def test_a_number_is_an_input_without_an_index(check):
    answer = check(
        "f(s)", "s = torch.tensor(3.0, requires_grad=True)\ndef f(s): return s * s.detach()"
    )
    assert answer[:2] == [WRONG + "s", "worst at s:"]
