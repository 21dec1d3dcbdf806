"""After each cell the report says what became of every tensor and gradient, and what each
backward reached.
"""

from __future__ import annotations

import pytest
from support import run, run_failing

START = (
    "import torch\nfrom torch import nn\nw = torch.ones(3, requires_grad=True)\nx = torch.ones(3)"
)


@pytest.fixture
def started(watcher):
    run(watcher.shell, START)
    return watcher.shell


def told(report):
    """Return the changes of *report* as {name: (kind, details, grad)}."""
    return {
        change.name: (
            change.kind.value,
            change.details,
            None if change.grad is None else change.grad.value,
        )
        for change in report.changes
    }


# Variables.


def test_new_variables_are_added(started):
    report = run(started, "y = w * 2\nn = 3")
    assert told(report) == {"y": ("added", (), None)}
    assert "y" not in report.before
    assert report.after["y"].grad_fn == "MulBackward0"


def test_deleted_variables_are_gone(started):
    report = run(started, "del x")
    assert told(report) == {"x": ("gone", (), None)}
    assert "x" in report.before
    assert "x" not in report.after


def test_a_cell_that_does_nothing_changes_nothing(started):
    assert told(run(started, "1 + 1")) == {}


def test_before_is_what_after_was_in_the_cell_before(started):
    first = run(started, "y = w * 2; y.sum().backward()")
    second = run(started, "y = w * 3")
    assert {*second.before} == {*first.after}
    assert second.before["y"].identity == first.after["y"].identity


@pytest.mark.parametrize(
    ("cell", "name", "details"),
    [
        ("x.requires_grad_()", "x", ("requires_grad False → True",)),
        ("w.requires_grad_(False)", "w", ("requires_grad True → False",)),
        ("x.add_(1)", "x", ("written in place",)),
        ("x[0] = 5", "x", ("written in place",)),
        ("w.data = torch.ones(2)", "w", ("shape (3,) → (2,)", "other memory under it")),
        ("x.data = x.double()", "x", ("dtype float32 → float64", "other memory under it")),
        ("x.data = x.clone()", "x", ("other memory under it",)),
        ("x = x.to(torch.float16)", "x", ("another tensor than before",)),
        ("x = x + 1", "x", ("another tensor than before",)),
        (
            "x.mul_(w)",
            "x",
            (
                "requires_grad False → True",
                "no leaf any more",
                "written in place",
                "connected to other leaves",
            ),
        ),
    ],
)
def test_what_changed_about_a_tensor_is_said(started, cell, name, details):
    assert told(run(started, cell)) == {name: ("changed", details, None)}


def test_a_result_that_was_detached_in_place_is_a_leaf_now(started):
    report = run(started, "y = w * 2", "y.detach_()")
    assert told(report)["y"][1] == (
        "requires_grad True → False",
        "a leaf now",
        "connected to other leaves",
    )


def test_a_write_under_no_grad_is_no_other_connection(started):
    report = run(started, "y = w * 2", "with torch.no_grad(): y.add_(1)")
    assert told(report) == {"y": ("changed", ("written in place",), None)}


def test_a_module_moved_to_another_dtype_changes_parameter_by_parameter(started):
    report = run(started, "net = nn.Linear(1, 1)", "net.double()")
    assert told(report) == {
        f"net.{name}": ("changed", ("dtype float32 → float64", "other memory under it"), None)
        for name in ("weight", "bias")
    }


def test_a_second_name_is_no_change(started):
    report = run(started, "alias = w")
    assert told(report) == {}
    assert report.after["w"].also == ("alias",)


def test_renaming_is_no_change(started):
    report = run(started, "v = w\ndel w")
    assert told(report) == {}
    assert report.after["v"].identity == report.before["w"].identity


def test_renaming_a_leaf_is_no_other_connection(started):
    report = run(started, "y = (w * 1)\nz = w * 2", "y.add_(1)\nv = w\ndel w")
    assert told(report) == {"y": ("changed", ("written in place",), None)}
    assert report.after["y"].reaches == ("v",)


def test_losing_the_name_of_a_leaf_changes_nothing_about_the_result(started):
    report = run(started, "v = torch.ones(3, requires_grad=True); y = v * 2", "del v")
    assert told(report) == {"v": ("gone", (), None)}


def test_a_cell_that_raises_is_told_up_to_there(started):
    _, report = run_failing(started, "y = w * 2\nw.grad = torch.ones(3)\n1 / 0\nz = w * 3")
    assert told(report) == {"y": ("added", (), None), "w": ("changed", (), "new")}
    assert report.error[0] == "ZeroDivisionError"


def test_a_memory_shared_by_two_tensors_has_one_address(started):
    report = run(started, "d = w.detach()\nv = w[1:]")
    after = report.after
    assert after["d"].storage == after["v"].storage == after["w"].storage != after["x"].storage


# Gradients.


@pytest.mark.parametrize(
    ("cells", "change"),
    [
        (["w.sum().backward()"], "new"),
        (["w.sum().backward()"] * 2, "accumulated"),
        (["w.sum().backward()", "w.grad = None"], "cleared"),
        (["w.sum().backward()", "w.grad = None\nw.sum().backward()"], "replaced"),
        (["w.sum().backward()", "w.grad = w.grad.clone()"], "replaced"),
        (["w.sum().backward()", "w.grad.zero_()"], "written"),
        (["w.sum().backward()", "w.grad.zero_()\nw.sum().backward()"], "accumulated"),
        (["w.sum().backward()", "nn.utils.clip_grad_norm_([w], 0.1)"], "written"),
        (["opt = torch.optim.SGD([w], 1.0)", "w.sum().backward()", "opt.zero_grad()"], "cleared"),
        (["torch.autograd.backward([w.sum(), (w * w).sum()])"], "new"),
        (["w.sum().backward()", "torch.autograd.backward([w.sum()])"], "accumulated"),
        (["def train():\n    w.sum().backward()", "train()"], "new"),
        (["w.sum().backward()", "1"], None),
        (["torch.autograd.grad(w.sum(), w)"], None),
        (["w.sum().backward()\nw.grad = None"], None),
    ],
)
def test_what_a_cell_did_to_a_gradient(started, cells, change):
    report = run(started, *cells)
    assert told(report).get("w", (None, None, None))[2] == change


def test_a_gradient_freed_and_made_again_is_never_unchanged(started):
    run(started, "w.sum().backward()")
    for _ in range(3):
        report = run(started, "w.grad = None\nimport gc; _ = gc.collect()\nw.sum().backward()")
        assert told(report)["w"][2] == "replaced"


def test_before_says_unchanged_of_every_gradient(started):
    report = run(started, "w.sum().backward()", "w.grad = None")
    assert report.before["w"].grad.identity == "unchanged"
    assert report.after["w"].grad.identity == "cleared"
    assert run(started, "1").after["w"].grad is None


def test_a_backward_inside_library_code_is_seen_by_what_it_did(started):
    run(started, "w.sum().backward()", "import types; lib = types.ModuleType('lib')")
    run(started, "exec('def fit(w): w.sum().backward()', lib.__dict__)")
    assert told(run(started, "lib.fit(w)"))["w"][2] == "written"


def test_the_gradient_of_a_non_leaf_that_retains_it(started):
    report = run(started, "h = w * 2\nh.retain_grad()", "h.sum().backward()")
    assert told(report)["h"] == ("changed", (), "new")


def test_no_warning_of_torch_is_provoked(started, capsys):
    run(started, "h = w * 2", "(h * h).sum().backward()", "h")
    assert "warn" not in capsys.readouterr().err.lower()


def test_parameters_of_a_training_loop(started):
    report = run(
        started,
        "net = nn.Linear(3, 1)\nopt = torch.optim.SGD(net.parameters(), 0.1)",
        "for _ in range(3):\n    opt.zero_grad()\n    net(x).sum().backward()\n    opt.step()",
    )
    assert told(report) == dict.fromkeys(
        ("net.weight", "net.bias"), ("changed", ("written in place",), "new")
    )


# Connections.


def test_a_result_reaches_its_leaves_by_name(started):
    report = run(started, "net = nn.Linear(3, 1)\ny = net(x * w)")
    assert {*report.after["y"].reaches} == {"net.bias", "w", "net.weight"}


def test_what_was_cut_reaches_nothing(started):
    report = run(started, "y = (w * 2).detach()\nwith torch.no_grad(): z = w * 2")
    assert report.after["y"].reaches == report.after["z"].reaches == ()


def test_a_leaf_without_a_name_is_called_by_the_line_that_made_it(started):
    report = run(
        started,
        "def hidden():\n    return torch.ones(3, requires_grad=True) * 2",
        "y = hidden()",
    )
    assert report.after["y"].reaches == ("<leaf of cell 2, line 2>",)


def test_a_view_that_was_written_under_no_grad_breaks_nothing(started):
    report = run(started, "a, b = w.split([1, 2])\nwith torch.no_grad(): v = w[:2]; v.add_(1)")
    assert {"a", "b", "v"} <= {*report.after}


def test_a_walk_that_was_cut_says_so(started, monkeypatch):
    from ipy_autogradwatch.observe import run as run_module

    monkeypatch.setattr(run_module, "WALK_SECONDS", 0.0005)
    report = run(started, "y = w\nfor _ in range(20_000): y = y + 1")
    assert report.after["y"].reaches_cut


def test_a_search_that_was_cut_says_so_and_claims_nothing_it_does_not_know(started):
    run(started, "lots = [[torch.ones(1) for _ in range(500)] for _ in range(5)]")
    report = run(started, "del lots[0][:10]\ny = w * 2")
    assert report.cuts
    kinds = {change.name: change.kind.value for change in report.changes}
    assert kinds["y"] == "added"
    assert "gone" not in kinds.values()
    assert [name for name, kind in kinds.items() if kind == "added"] == ["y"]


# Backward calls.


def roots_and_leaves(report):
    return [(call.roots, {*call.reaches}) for call in report.backwards]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("loss = (w * x).sum()\nloss.backward()", [(("loss",), {"w"})]),
        ("(w * x).sum().backward()", [(("(w * x).sum()",), {"w"})]),
        ("loss = w.sum()\ntorch.autograd.grad(loss, w)", [(("loss",), {"w"})]),
        ("loss = w.sum()\ntorch.autograd.grad(outputs=loss, inputs=w)", [(("loss",), {"w"})]),
        (
            "from torch.autograd import grad\nloss = w.sum()\ngrad(loss, w)",
            [(("loss",), {"w"})],
        ),
        (
            "v = torch.ones(1, requires_grad=True)\na = w.sum()\nb = v.sum()\n"
            "torch.autograd.backward([a, b])",
            [(("a", "b"), {"w", "v"})],
        ),
        (
            "class Accelerator:\n    def backward(self, loss): loss.backward()\n"
            "accelerator = Accelerator()\nloss = w.sum()\naccelerator.backward(loss)",
            [(("loss",), {"w"}), (("loss",), {"w"})],
        ),
    ],
)
def test_what_a_backward_started_from_and_reached(started, cell, expected):
    found = roots_and_leaves(run(started, cell))
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_function_called_grad_that_is_not_torchs_is_no_backward(started):
    report = run(started, "def grad(a, b): return a\nloss = w.sum()\ngrad(loss, w)")
    assert report.backwards == ()


def test_a_backward_in_a_function_of_an_earlier_cell_is_seen_where_it_stands(started):
    run(started, "def train():\n    loss = w.sum()\n    loss.backward()")
    (call,) = run(started, "train()").backwards
    assert (call.site.cell, call.site.span.line) == (2, 3)
    assert call.reaches == ("w",)


def test_a_loop_is_one_call_site_and_its_graph_is_walked_when_it_changes(started):
    report = run(
        started,
        "for n in range(50):\n"
        "    y = w * 2\n"
        "    for _ in range(10 if n >= 25 else 1):\n"
        "        y = y + 1\n"
        "    y.sum().backward()",
    )
    (call,) = report.backwards
    assert call.hits == 50
    assert 2 <= call.walks <= 5
    assert call.nodes == 13  # Of the larger graph: mul, ten additions, sum, AccumulateGrad.


def test_a_loop_that_meets_another_leaf_in_a_graph_of_another_size_reaches_both(started):
    report = run(
        started,
        "v = torch.ones(3, requires_grad=True)\n"
        "for n in range(6):\n"
        "    loss = (w * 2).sum() if n < 4 else (v * 2 * 2).sum()\n"
        "    loss.backward()",
    )
    assert {*report.backwards[0].reaches} == {"w", "v"}


def test_a_root_without_graph_is_told(started):
    _, report = run_failing(started, "z = (w * 2).detach()\nz.sum().backward()")
    (call,) = report.backwards
    assert (call.requires_grad, call.reaches) == (False, ())


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_backward_that_makes_a_graph_is_followed_by_one_through_it(started):
    report = run(
        started,
        "(g,) = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)\n(g * g).sum().backward()",
    )
    assert [{*call.reaches} for call in report.backwards] == [{"w"}, {"w"}]
    assert report.after["g"].reaches == ("w",)


def test_checkpointed_and_custom_functions_are_walked_through(started):
    report = run(
        started,
        "from torch.utils.checkpoint import checkpoint\n"
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x): return x * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, g): return g * 2\n"
        "y = checkpoint(lambda v: (v * w).sin(), x, use_reentrant=False)\n"
        "z = Twice.apply(y).sum()\n"
        "z.backward()",
    )
    assert report.after["z"].reaches == ("w",)
    assert report.after["y"].grad_fn == "SinBackward0"


def test_a_walk_that_was_cut_is_told_of_the_call(started, monkeypatch):
    from ipy_autogradwatch.observe import run as run_module

    monkeypatch.setattr(run_module, "WALK_SECONDS", 0.0005)
    report = run(started, "y = w\nfor _ in range(20_000): y = y + 1\ny.sum().backward()")
    assert report.backwards[0].cut
