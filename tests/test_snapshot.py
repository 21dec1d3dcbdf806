"""A snapshot says what a tensor and its gradient are, and computes nothing to know it.

Gradients are told apart by the object that they are, not by its address, which comes back.
"""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from support import run
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ipy_autogradwatch.observe import snapshot as snapshot_module
from ipy_autogradwatch.observe.graph import WalkBudget
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.snapshot import Snapshot, states, take_snapshot


class Watch:
    """Looks at one namespace again and again, as the watch of a shell does."""

    def __init__(self, **namespace):
        self.namespace = namespace
        self.identities = Identities()
        self.last = None
        self.look()

    def look(self, *, seconds=1.0, read_gradients=False):
        self.last = take_snapshot(
            self.namespace,
            hidden=frozenset(),
            identities=self.identities,
            budget=WalkBudget(seconds),
            previous=self.last,
            read_gradients=read_gradients,
        )
        return self.last

    def grad_after(self, change, name="w", reached=()):
        """Return what *change* did to the gradient of *name*."""
        before = self.look()
        change(self.namespace[name])
        numbers = frozenset(self.identities.number(self.namespace[n]) for n in reached)
        state = states(self.look(), since=before, reached=numbers)[name]
        return None if state.grad is None else str(state.grad.identity)


def leaf(*, grad=True):
    w = torch.ones(3, requires_grad=True)
    if grad:
        (w * w).sum().backward()
    return w


# Gradients.


def test_a_gradient_that_was_none_is_new():
    assert Watch(w=leaf(grad=False)).grad_after(lambda w: (w * w).sum().backward()) == "new"


def test_no_gradient_before_and_after_is_none():
    assert Watch(w=leaf(grad=False)).grad_after(lambda w: w * w) is None


def test_a_gradient_that_nobody_touched_is_unchanged():
    assert Watch(w=leaf()).grad_after(lambda w: w * w) == "unchanged"


def test_a_gradient_that_a_seen_backward_added_to_is_accumulated():
    def backward(w):
        (w * w).sum().backward()

    assert Watch(w=leaf()).grad_after(backward, reached=["w"]) == "accumulated"


def test_a_gradient_that_was_written_without_a_backward_is_written():
    assert Watch(w=leaf()).grad_after(lambda w: w.grad.zero_()) == "written"


def test_a_gradient_set_to_none_is_cleared():
    def clear(w):
        w.grad = None

    assert Watch(w=leaf()).grad_after(clear) == "cleared"


def test_another_gradient_is_replaced():
    def replace(w):
        w.grad = torch.ones(3)

    assert Watch(w=leaf()).grad_after(replace) == "replaced"


def test_create_graph_replaces_the_gradient_and_so_it_is_said():
    def backward(w):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (w * w).sum().backward(create_graph=True)

    assert Watch(w=leaf()).grad_after(backward, reached=["w"]) == "replaced"


@pytest.mark.parametrize("attempt", range(20))
def test_a_gradient_at_the_address_of_the_one_before_is_not_unchanged(attempt):
    addresses = []

    def again(w):
        addresses.append(id(w.grad))
        w.grad = None
        gc.collect()
        w.grad = torch.ones(3)
        addresses.append(id(w.grad))

    watch = Watch(w=leaf(grad=False))
    watch.namespace["w"].grad = torch.ones(3)
    assert watch.grad_after(again) == "replaced"
    if attempt == 0:
        assert len(addresses) == 2


def test_addresses_do_come_back():
    """Else the test above would prove nothing."""
    seen = set()
    for _ in range(50):
        tensor = torch.ones(3)
        if id(tensor) in seen:
            return
        seen.add(id(tensor))
        del tensor
    pytest.fail("no address came back")


def test_a_gradient_keeps_its_number_while_only_torch_holds_it():
    watch = Watch(w=leaf())
    first = watch.last.seen["w"].grad_number
    gc.collect()
    assert watch.look().seen["w"].grad_number == first


def test_a_tensor_under_another_name_keeps_what_is_known_of_its_gradient():
    watch = Watch(w=leaf())
    before = watch.look()
    watch.namespace["v"] = watch.namespace.pop("w")
    assert states(watch.look(), since=before)["v"].grad.identity == "unchanged"


def test_a_retained_gradient_of_a_non_leaf_is_seen():
    def backward(h):
        (h * h).sum().backward()

    w = leaf(grad=False)
    h = w * 2
    h.retain_grad()
    assert Watch(w=w, h=h).grad_after(backward, "h") == "new"


def test_looking_for_the_gradient_of_a_non_leaf_warns_of_nothing(recwarn):
    w = leaf(grad=False)
    h = w * 2
    (h * h).sum().backward()
    assert states(Watch(h=h).last)["h"].grad is None
    assert list(recwarn) == []


def test_the_version_of_a_gradient_is_told():
    watch = Watch(w=leaf())
    watch.namespace["w"].grad.mul_(2)
    assert states(watch.look())["w"].grad.version == watch.namespace["w"].grad._version


# What a tensor is.


def test_the_state_of_a_result():
    w = leaf(grad=False)
    loss = (w * w).sum()
    state = states(Watch(w=w, loss=loss).last)["loss"]
    assert (state.shape, state.dtype, state.device) == ((), "float32", "cpu")
    assert (state.requires_grad, state.is_leaf, state.grad_fn) == (True, False, "SumBackward0")
    assert (state.reaches, state.reaches_cut) == (("w",), False)


def test_names_of_nodes_are_those_that_python_prints():
    base = torch.ones(3, requires_grad=True) * 1
    base[0] = 2.0
    assert states(Watch(x=base).last)["x"].grad_fn == "CopySlices"


def test_a_view_whose_grad_fn_raises_is_described_all_the_same():
    base = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = base[:2]
        other = base.split(1)[0]
        view.add_(1)
    assert {"view", "other"} <= {*states(Watch(view=view, other=other).last)}


def test_states_of_what_did_not_change_are_shared_between_snapshots():
    watch = Watch(w=leaf(), loss=leaf(grad=False).sum())
    first = states(watch.look())
    second = states(watch.look(), since=watch.last)
    assert all(first[name] is second[name] for name in first)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.requires_grad_(False),
        lambda w: w.detach().add_(1),
        lambda w: setattr(w, "data", torch.ones(5)),
        lambda w: setattr(w, "data", torch.ones(3)),
        lambda w: setattr(w, "data", w.data.double()),
        lambda w: setattr(w, "grad", None),
        lambda w: w.grad.add_(1),
    ],
)
def test_states_of_what_changed_are_not_shared(change):
    watch = Watch(w=leaf())
    before = watch.look()
    change(watch.namespace["w"])
    assert states(watch.look(), since=before)["w"] != states(before)["w"]


def test_a_quickly_made_state_is_equal_to_one_made_by_its_class():
    from dataclasses import fields

    state = states(Watch(w=leaf()).last)["w"]
    again = type(state)(**{each.name: getattr(state, each.name) for each in fields(state)})
    assert (again, hash(again), repr(again)) == (state, hash(state), repr(state))
    grad = state.grad
    again = type(grad)(**{each.name: getattr(grad, each.name) for each in fields(grad)})
    assert (again, hash(again), repr(again)) == (grad, hash(grad), repr(grad))


def test_a_leaf_without_a_name_is_called_by_what_made_it():
    w = leaf(grad=False)
    watch = Watch(loss=(w * w).sum())
    watch.identities.note_maker(w, 3, 2)
    watch.last.label_leaves(frozenset(), watch.identities)
    assert states(watch.last)["loss"].reaches == ("<leaf of cell 3, line 2>",)


def test_a_leaf_that_a_file_made_is_not_called_by_a_cell():
    w = leaf(grad=False)
    watch = Watch(loss=(w * w).sum())
    watch.identities.note_maker(w, None, 2)
    watch.last.label_leaves(frozenset(), watch.identities)
    assert "cell" not in states(watch.last)["loss"].reaches[0]


# Nothing is computed.


class Recorder(TorchDispatchMode):
    """Every operation that reaches the dispatcher while it is on."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        self.seen.append(str(f))
        return f(*args, **(kwargs or {}))


def everything():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    opt = torch.optim.Adam(model.parameters())
    x = torch.randn(4, 2)
    loss = model(x).sum()
    loss.backward()
    opt.step()
    sparse = nn.Embedding(3, 2, sparse=True)
    sparse(torch.tensor([1])).sum().backward()
    return {
        "model": model,
        "opt": opt,
        "x": x,
        "loss": loss,
        "view": model[0].weight[0],
        "sparse": sparse,
        "eye": torch.eye(2).to_sparse(),
        "odd": [nn.LazyLinear(1), torch.ones(2, device="meta")],
    }


def test_a_snapshot_issues_no_operation():
    watch = Watch(**everything())
    with Recorder() as recorder:
        before = watch.look()
        watch.namespace["model"][0].weight.grad = None
        states(watch.look(), since=before)
    assert recorder.seen == []


def test_under_gradcheck_the_elements_of_gradients_are_read(monkeypatch):
    watch = Watch(**everything())
    with Recorder() as recorder:
        # The recorder is a mode of somebody else's: without this, nothing would be computed.
        monkeypatch.setattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        watch.look(read_gradients=True)
    assert any("_local_scalar_dense" in name for name in recorder.seen)


def test_a_watched_cell_issues_the_operations_of_the_cell(shell):
    from ipy_autogradwatch import notebook

    cells = ["w = torch.ones(3, requires_grad=True)", "y = (w * w).sum()\ny.backward()", "w.grad"]

    import ipy_autogradwatch.observe.gather  # noqa: F401 - importing it is not watching

    def operations():
        shell.run_cell("import torch")
        with Recorder() as recorder:
            run(shell, *cells)
        return recorder.seen

    plain = operations()
    notebook.load(shell)
    assert operations() == plain
    assert len(plain) > 3


def test_norms_are_none_unless_gradcheck_asks(watcher):
    report = run(
        watcher.shell, "import torch\nw = torch.ones(2, requires_grad=True)", "w.sum().backward()"
    )
    assert report.after["w"].grad.norm is None


def test_gradcheck_tells_norm_largest_mean_and_what_is_not_finite():
    watch = Watch(w=leaf(grad=False), v=leaf(grad=False), e=torch.empty(0, requires_grad=True))
    watch.namespace["w"].grad = torch.tensor([3.0, -4.0, 0.0])
    watch.namespace["v"].grad = torch.tensor([float("nan"), float("inf"), 2.0])
    watch.namespace["e"].grad = torch.empty(0)
    found = states(watch.look(read_gradients=True))
    w, v, e = (found[name].grad for name in "wve")
    assert (w.norm, w.max_abs, w.nonfinite) == (5.0, 4.0, 0)
    assert w.mean_abs == pytest.approx(7 / 3)
    assert (v.nonfinite, v.max_abs) == (2, 2.0)
    assert v.norm != v.norm
    assert (e.norm, e.nonfinite) == (0.0, 0)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64], ids=str
)
def test_norms_of_other_dtypes_are_told_without_overflow(dtype):
    w = torch.ones(100, dtype=dtype, requires_grad=True)
    w.grad = torch.full((100,), 3e4, dtype=dtype)
    state = states(Watch(w=w).look(read_gradients=True))["w"]
    assert state.grad.norm == pytest.approx(3e5, rel=1e-2)


def test_the_norm_of_a_sparse_gradient_is_that_of_the_dense_one():
    table = nn.Embedding(3, 2, sparse=True)
    table(torch.tensor([1, 1])).sum().backward()
    state = states(Watch(w=table.weight).look(read_gradients=True))["w"]
    assert state.grad.norm == pytest.approx(table.weight.grad.to_dense().norm().item())


# Bounds.


def test_a_cut_search_is_said():
    lots = [[torch.empty(0) for _ in range(100)] for _ in range(30)]
    snapshot = Watch(lots=lots).last
    assert len(snapshot.seen) == snapshot_module.MAX_TENSORS
    assert snapshot.cut


def test_a_walk_that_is_cut_says_so_and_one_without_any_time_is_tried_again():
    x = torch.ones(1, requires_grad=True)
    watch = Watch(x=x)
    watch.namespace["y"] = x * 2
    watch.look(seconds=0.0)
    assert states(watch.last)["y"].reaches_cut
    state = states(watch.look())["y"]
    assert (state.reaches, state.reaches_cut) == (("x",), False)


def test_a_long_graph_is_walked_in_the_time_there_is():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    watch = Watch(x=x)
    watch.namespace["y"] = y
    state = states(watch.look(seconds=0.001))["y"]
    assert (state.reaches, state.reaches_cut) == ((), True)


def test_an_empty_snapshot_is_a_snapshot():
    assert states(Snapshot()) == {}
