"""The probe returns its argument, tells tensors to its listener, and asks nothing of anything."""

from __future__ import annotations

import ast
import copy
import gc
import importlib.util
import pickle
import subprocess
import sys
import types
import weakref

import pytest

from ipy_autogradwatch.instrument import PROBE_NAME, instrument
from ipy_autogradwatch.model import Part
from ipy_autogradwatch.observe.probe import PROBE, Probe, imported_torch

torch = pytest.importorskip("torch")

SITE = ("read", 1, None, (1, 0, 1, 6), "x", "x.data", "", "x.data")


@pytest.fixture
def told():
    return []


@pytest.fixture
def probe(told):
    probe = Probe()
    probe.listen(lambda value, site, part: told.append((value, site, part)))
    return probe


# What it tells.


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2),
        lambda: torch.nn.Parameter(torch.ones(2)),
        lambda: torch.nn.UninitializedParameter(),
        lambda: torch.nn.Buffer(torch.ones(2)),
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(2).to_sparse(),
        lambda: torch.ones(2).as_subclass(type("Mine", (torch.Tensor,), {})),
    ],
)
@pytest.mark.parametrize("part", Part)
def test_a_tensor_of_any_class_is_told(probe, told, make, part):
    tensor = make()
    assert probe(tensor, SITE, part) is tensor
    [(value, site, at)] = told
    assert value is tensor
    assert (site, at) == (SITE, part)


def test_a_lazy_parameter_and_a_broken_subclass_are_told_and_not_asked(probe, told):
    class Broken(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args, **kwargs):
            raise AssertionError("asked")

        def __getattribute__(self, name):
            raise AssertionError(name)

    tensor = torch.Tensor._make_subclass(Broken, torch.ones(1))
    probe(tensor, SITE)
    assert len(told) == 1


@pytest.mark.parametrize("part", [Part.RECEIVER, Part.ALIAS, Part.VALUE])
@pytest.mark.parametrize("value", [None, 1, "s", [torch.ones(1)], torch, torch.Tensor, object()])
def test_what_is_no_tensor_is_not_told_of_a_data_access(probe, told, part, value):
    assert probe(value, SITE, part) is value
    assert told == []


@pytest.mark.parametrize("part", [Part.ROOT, Part.ARGUMENT, Part.FUNCTION, Part.LEAF])
def test_the_roots_of_a_backward_may_be_of_any_class(probe, told, part):
    value = [torch.ones(1)]
    assert probe(value, SITE, part) is value
    assert told == [(value, SITE, part)]


def test_after_silence_nothing_is_told_and_the_argument_comes_back(probe, told):
    tensor = torch.ones(1)
    probe.silence()
    for part in Part:
        assert probe(tensor, SITE, part) is tensor
    assert probe(tensor) is tensor
    assert told == []


def test_it_listens_again_after_silence(probe, told):
    probe.silence()
    again = []
    probe.listen(lambda *seen: again.append(seen))
    probe(torch.ones(1), SITE)
    assert told == []
    assert len(again) == 1


def test_it_keeps_no_argument_alive(probe):
    probe.listen(lambda *seen: None)
    tensor = torch.ones(1)
    dead = weakref.ref(tensor)
    count = sys.getrefcount(tensor)
    probe(tensor, SITE)
    assert sys.getrefcount(tensor) == count
    del tensor
    gc.collect()
    assert dead() is None


def test_an_error_of_the_listener_is_not_swallowed_here(probe):
    """That is the fence's business; and what a user's Ctrl-C raises has to pass."""

    def interrupt(*seen):
        raise KeyboardInterrupt

    probe.listen(interrupt)
    with pytest.raises(KeyboardInterrupt):
        probe(torch.ones(1), SITE)


# What it never asks.


def hostile_objects(asked):
    """Return objects that write into *asked* whatever anybody wants of them."""

    def ask(name):
        def method(self, *args):
            asked.append(name)
            raise AssertionError(name)

        return method

    dunders = [
        "eq",
        "ne",
        "hash",
        "bool",
        "len",
        "repr",
        "str",
        "format",
        "iter",
        "contains",
        "getitem",
        "call",
        "index",
    ]
    methods = {f"__{name}__": ask(name) for name in dunders}
    everything = methods | {"__getattribute__": ask("getattribute"), "__class__": ask("class")}

    class Meta(type):
        __subclasscheck__ = ask("subclasscheck")
        __instancecheck__ = ask("instancecheck")
        __eq__ = ask("meta eq")
        __hash__ = ask("meta hash")
        __bool__ = ask("meta bool")
        __getattribute__ = ask("meta getattribute")

    class Pretends:
        __class__ = property(lambda self: asked.append("class") or torch.Tensor)

    class Delegates:
        def __getattr__(self, name):
            asked.append(name)
            raise AssertionError(name)

    class LazyModule(types.ModuleType):
        __getattribute__ = ask("module")

    class Anything:
        pass

    referent = Anything()
    dead = weakref.proxy(referent)
    del referent
    alive = torch.ones(1)
    yield "everything", type("Everything", (), everything)()
    yield "metaclass", Meta("OfMeta", (), dict(methods))()
    yield "a class with a metaclass", Meta("OfMeta", (), {})
    yield "pretends to be a tensor", Pretends()
    yield "delegates", Delegates()
    yield "lazy module", LazyModule("lazy")
    yield "proxy of what is gone", dead
    yield "proxy of a tensor", weakref.proxy(alive)
    yield "slots", type("Slots", (), methods | {"__slots__": ()})()


HOSTILE = [name for name, _ in hostile_objects([])]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("part", [Part.RECEIVER, Part.ALIAS, Part.VALUE])
def test_a_hostile_object_is_never_asked_anything(probe, told, name, part):
    asked = []
    value = dict(hostile_objects(asked))[name]
    asked.clear()  # Making some of them asks their metaclass.
    assert probe(value, SITE, part) is value
    silent = Probe()
    assert silent(value, SITE, part) is value
    assert asked == []
    assert told == []


@pytest.mark.parametrize("name", ["everything", "metaclass", "pretends to be a tensor"])
def test_an_isinstance_in_the_probe_would_be_noticed(name):
    """A meta-test: the objects above do tell when they are asked."""
    asked = []
    value = dict(hostile_objects(asked))[name]
    asked.clear()
    try:
        isinstance(value, torch.Tensor)
        hash(type(value))
    except AssertionError:
        pass
    assert asked != []


# Before there is a torch.


FRESH = """
import sys
from ipy_autogradwatch.observe.probe import Probe, imported_torch
told = []
probe = Probe()
probe.listen(lambda *seen: told.append(seen[2]))
value = object()
for part in range(7):
    assert probe(value, (), part) is value
assert imported_torch() is None and told == []
assert "torch" not in sys.modules, "the probe imported torch"
import torch
assert probe(value, (), 0) is value and told == []
probe(torch.ones(1), (), 0)
assert told == [0]
print("fine")
"""


def test_it_waits_for_torch_and_never_imports_it():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"


class Stub(types.ModuleType):
    """Stands in for torch; tells when an attribute is asked for."""

    asked: tuple = ()

    def __getattribute__(self, name):
        Stub.asked += (name,)
        raise AssertionError(name)


def stand_ins():
    half = types.ModuleType("torch")
    half.Tensor = torch.Tensor
    initializing = types.ModuleType("torch")
    initializing.__dict__.update(Tensor=torch.Tensor, compiler=torch.compiler)
    initializing.__spec__ = types.SimpleNamespace(_initializing=True)
    mocked = types.ModuleType("torch")
    mocked.__dict__.update(Tensor="no class", compiler=torch.compiler)
    return {
        "None": None,
        "half-imported": half,
        "being imported": initializing,
        "mocked": mocked,
        "no module": object(),
        "hostile": Stub("torch"),
    }


@pytest.mark.parametrize("name", stand_ins())
def test_a_stand_in_for_torch_is_not_taken_for_it(monkeypatch, probe, told, name):
    monkeypatch.setitem(sys.modules, "torch", stand_ins()[name])
    Stub.asked = ()
    probe.listen(lambda *seen: told.append(seen))
    value = object()
    for part in Part:
        assert probe(value, SITE, part) is value
    assert imported_torch() is None
    assert told == []
    assert Stub.asked == ()
    monkeypatch.undo()
    probe(torch.ones(1), SITE)
    assert len(told) == 1  # It was waiting.


def test_a_lazily_imported_torch_is_not_loaded(monkeypatch):
    spec = importlib.util.find_spec("json.tool")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    monkeypatch.setitem(sys.modules, "torch", lazy)
    assert imported_torch() is None
    assert type(lazy).__name__ == "_LazyModule"


# Elsewhere.


@pytest.mark.parametrize(
    "remake", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_a_copy_of_it_is_an_identity_that_tells_nobody(probe, told, remake):
    other = remake(probe)
    tensor = torch.ones(1)
    assert other(tensor, SITE, Part.ROOT) is tensor
    assert told == []


def test_the_one_of_the_process_is_silent_until_somebody_listens():
    value = object()
    assert PROBE(value, SITE, Part.ROOT) is value


# Under torch.compile.

FUNCTIONS = {
    "reads": "def f(x, w):\n    y = x.data * 2\n    return (x * y + getattr(w, 'data')).sum()",
    "writes": "def f(x, w):\n    w.data.add_(1)\n    w.data[0] = 2.0\n    return (x * w).sum()",
    "assigns": "def f(x, w):\n    w.data = w.data + x.detach()\n    return (x * w).sum()",
    "augments": "def f(x, w):\n    w.data += 1\n    w.data *= x.data\n    return (x * w).sum()",
    "loops": "def f(x, w):\n    for _ in range(3):\n        x = x + w.data\n    return x.sum()",
    "no tensors": "class A: data = 3\ndef f(x, w): return (x * A.data).sum() + w.sum()",
}


def define(source, probe):
    tree = ast.parse(source)
    if probe is not None:
        assert instrument(tree, source, cell=1)
    namespace = {"torch": torch, PROBE_NAME: probe}
    exec(compile(tree, "<cell>", "exec"), namespace)
    return namespace["f"]


def compile_and_run(source, probe, between=lambda: None):
    """Return results and dynamo's counters of five calls of a compiled function."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    function = torch.compile(define(source, probe), backend="eager", fullgraph=True)
    results = []
    for _ in range(5):
        x = torch.arange(3.0).requires_grad_()
        w = torch.nn.Parameter(torch.ones(3))
        results.append((function(x, w).item(), w.tolist()))
        between()
    counters = torch._dynamo.utils.counters
    return results, dict(counters["stats"]), dict(counters["graph_break"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_function_is_one_graph_and_compiled_once(probe, told, name):
    def meet_others():
        for value in (torch.ones(1), torch.nn.Parameter(torch.ones(1)), [1], None):
            for part in Part:
                probe(value, SITE, part)

    plain = compile_and_run(FUNCTIONS[name], None)
    probed = compile_and_run(FUNCTIONS[name], probe, meet_others)
    assert probed == plain
    assert plain[1]["unique_graphs"] == 1
    assert plain[2] == {}


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_may_be_the_first_to_meet_the_probe(monkeypatch, told):
    """As in a cell that imports torch and compiles a function."""
    probe = Probe()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        probe.listen(lambda *seen: told.append(seen))
    assert compile_and_run(FUNCTIONS["reads"], probe) == compile_and_run(FUNCTIONS["reads"], None)
    probe(torch.ones(1), SITE)
    assert len(told) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_probe_with_state_would_be_compiled_again():
    """A meta-test: the counters above do show a probe that is traced into."""

    class Counting(Probe):
        __slots__ = ("seen",)

        def __call__(self, value, site=(), part=0):
            self.seen = [*getattr(self, "seen", ()), part]
            return value

    _, stats, _ = compile_and_run(FUNCTIONS["reads"], Counting())
    assert stats["unique_graphs"] > 1
