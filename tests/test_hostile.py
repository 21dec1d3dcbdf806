"""Nothing of the user's runs because a cell is watched, whatever stands in the namespace.

Every method that Python could call behind one's back counts its calls (and raises, unless
told not to). A watched cell that leaves such objects alone must leave the counts at zero;
what the cell itself does with them counts as without us.
"""

from __future__ import annotations

import pytest
from support import run
from torch import nn

HOSTILE = """
import torch, types, weakref
from torch import nn
from collections import OrderedDict, deque, UserDict

calls = []
quiet = False

def trap(name, result=None):
    def method(*args, **kwargs):
        if not quiet:
            calls.append(name)
        raise RuntimeError(f"{name} was called")
    return method

names = '''__getattr__ __getattribute__ __eq__ __ne__ __lt__ __hash__ __len__ __bool__ __iter__
__next__ __reversed__ __contains__ __getitem__ __missing__ __repr__ __str__ __format__ __dir__
__call__ __int__ __index__ __float__ __complex__ __length_hint__ __reduce__ __reduce_ex__
__sizeof__ __instancecheck__ __subclasscheck__ __enter__ __exit__ __copy__ __deepcopy__ __array__
keys items values get copy'''.split()
traps = {name: trap(name) for name in names}
prop = property(trap("property"))
"""

OBJECTS = {
    "object": "class Evil: pass\nfor n in traps: setattr(Evil, n, traps[n])\nevil = Evil()",
    "class property": "class Evil: __class__ = prop\nevil = Evil()",
    "dict property": "class Evil: __dict__ = prop; w = prop\nevil = Evil()",
    "doc property": "class Evil: __doc__ = prop; __module__ = prop; _fields = prop\nevil = Evil()",
    "properties": "class Evil: w = prop; weight = prop; data = prop; grad = prop\nevil = Evil()",
    "descriptor": (
        "class D:\n"
        "    __get__ = trap('get'); __set__ = trap('set'); __delete__ = trap('delete')\n"
        "class Evil: w = D(); __dict__ = D(); __slots__ = ()\n"
        "evil = object.__new__(Evil)"
    ),
    "slots": (
        "class Base: __slots__ = ('w', 'v')\n"
        "class Evil(Base): w = prop; __getattribute__ = traps['__getattribute__']\n"
        "evil = Evil()\nBase.v.__set__(evil, torch.ones(2))"
    ),
    "list": "Evil = type('Evil', (list,), traps)\nevil = Evil([torch.ones(2)])",
    "tuple": "Evil = type('Evil', (tuple,), traps)\nevil = tuple.__new__(Evil, [torch.ones(2)])",
    "dict": (
        "Evil = type('Evil', (dict,), traps)\n"
        "evil = dict.__new__(Evil)\ndict.__setitem__(evil, 'w', torch.ones(2))"
    ),
    "ordered dict": (
        "Evil = type('Evil', (OrderedDict,), {**traps, '__init__': lambda s: None})\n"
        "evil = Evil()\ndict.__setitem__(evil, 'w', torch.ones(2))"
    ),
    "deque": "Evil = type('Evil', (deque,), traps)\nevil = Evil()\ndeque.append(evil, 1)",
    "str": "Evil = type('Evil', (str,), traps)\nevil = [Evil('a')]",
    "int": "Evil = type('Evil', (int,), traps)\nevil = Evil(3)",
    "namedtuple": (
        "from collections import namedtuple\n"
        "Evil = type('Evil', (namedtuple('P', 'x y'),), traps)\n"
        "evil = tuple.__new__(Evil, (torch.ones(2), 1))"
    ),
    "metaclass": (
        "Meta = type('Meta', (type,), {n: traps[n] for n in traps if n != '__call__'})\n"
        "Evil = type.__new__(Meta, 'Evil', (), {})\n"
        "evil = [object.__new__(Evil), Evil, (object.__new__(Evil),)]"
    ),
    "metaclass properties": (
        "Meta = type('Meta', (type,), dict(__name__=prop, __mro__=prop, __bases__=prop,\n"
        "            __dict__=prop, __dictoffset__=prop))\n"
        "Evil = Meta('Evil', (), {})\nevil = Evil()"
    ),
    "metaclass of a tensor": (
        "Meta = type('Meta', (type(torch.Tensor),), dict(__hash__=traps['__hash__'],\n"
        "            __eq__=traps['__eq__'], __name__=prop, __instancecheck__=traps['__eq__']))\n"
        "Evil = Meta('Evil', (torch.Tensor,), {})\n"
        "evil = torch.Tensor._make_subclass(Evil, torch.ones(2))"
    ),
    "key": (
        "class Key:\n"
        "    def __hash__(self):\n"
        "        if not arming: traps['__hash__']()\n"
        "        return 1\n"
        "for n in traps:\n"
        "    if n not in ('__hash__', '__getattribute__'): setattr(Key, n, traps[n])\n"
        "arming = True\nevil = {Key(): torch.ones(2)}\narming = False"
    ),
    "key in the instance dict": (
        "class Key(str): __hash__ = str.__hash__; __eq__ = traps['__eq__']\n"
        "evil = types.SimpleNamespace()\n"
        "evil.__dict__[Key('w')] = torch.ones(2)"
    ),
    "dict of another class as instance dict": (
        "Odd = type('Odd', (dict,), traps)\n"
        "class Evil: pass\n"
        "evil = Evil()\nodd = dict.__new__(Odd)\ndict.__setitem__(odd, 'w', torch.ones(2))\n"
        "evil.__dict__ = odd\ndel odd"
    ),
    "module": (
        "class Evil(nn.Module):\n"
        "    w = prop\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(1, 1)\n"
        "evil = Evil()\n"
        "for n in traps: setattr(Evil, n, traps[n])\n"
        "for n in ('parameters', 'named_parameters', 'named_modules', 'modules', 'children',\n"
        "          'named_children', 'state_dict', 'buffers', 'named_buffers', 'training'):\n"
        "    setattr(Evil, n, traps.get(n) or trap(n))"
    ),
    "module with odd holders": (
        "evil = nn.Linear(1, 1)\n"
        "Odd = type('Odd', (dict,), traps)\nodd = dict.__new__(Odd)\n"
        "dict.__setitem__(odd, 'w', torch.ones(2))\n"
        "evil.__dict__['_parameters'] = odd\ndel odd"
    ),
    "optimizer": (
        "evil = torch.optim.SGD([torch.ones(2, requires_grad=True)], 0.1)\n"
        "Evil = type('Evil', (torch.optim.SGD,), {**traps, 'param_groups': prop})\n"
        "object.__setattr__(evil, '__class__', Evil)"
    ),
    "lazy import": (
        "class Lazy(types.ModuleType): __getattr__ = traps['__getattr__']\n"
        "Lazy.__getattribute__ = traps['__getattribute__']\n"
        "evil = Lazy('lazy')"
    ),
    "weak proxy": (
        "class Target: pass\nfor n in traps: setattr(Target, n, traps[n])\n"
        "target = Target()\nevil = [weakref.proxy(target), weakref.ref(target)]"
    ),
    "dead weak proxy": "class Target: pass\nevil = weakref.proxy(Target())",
    "tensor function": (
        "class Evil(torch.Tensor):\n"
        "    __torch_function__ = classmethod(trap('__torch_function__'))\n"
        "evil = torch.Tensor._make_subclass(Evil, torch.ones(2))"
    ),
    "tensor properties": (
        "class Evil(torch.Tensor):\n"
        "    shape = dtype = device = grad = grad_fn = is_leaf = requires_grad = prop\n"
        "    _version = data = layout = retains_grad = __dict__ = prop\n"
        "    __getattribute__ = traps['__getattribute__']; detach = trap('detach')\n"
        "    untyped_storage = size = __hash__ = __eq__ = __len__ = __repr__ = trap('method')\n"
        "evil = torch.Tensor._make_subclass(Evil, torch.ones(2), True)"
    ),
    "tensor dispatch": (
        "class Evil(torch.Tensor):\n"
        "    @staticmethod\n"
        "    def __new__(cls):\n"
        "        return torch.Tensor._make_wrapper_subclass(\n"
        "            cls, (2, 3), dispatch_sizes_strides_policy='sizes', dispatch_device=True,\n"
        "            dispatch_layout=True)\n"
        "    __torch_dispatch__ = classmethod(trap('__torch_dispatch__'))\n"
        "    __torch_function__ = classmethod(trap('__torch_function__'))\n"
        "evil = Evil()"
    ),
    "gradient of another class": (
        "class Evil(torch.Tensor):\n"
        "    _version = shape = prop\n"
        "    __torch_function__ = classmethod(trap('__torch_function__'))\n"
        "    __hash__ = __eq__ = trap('method')\n"
        "evil = torch.ones(2, requires_grad=True)\n"
        "evil.grad = torch.Tensor._make_subclass(Evil, torch.ones(2))"
    ),
    "context of a custom function": (
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.name = trap('name'); ctx.variable = trap('variable')\n"
        "        ctx._sequence_nr = trap('sequence')\n"
        "        return x * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, g): return g\n"
        "evil = F.apply(torch.ones(2, requires_grad=True))"
    ),
}


@pytest.fixture
def hostile(watcher):
    run(watcher.shell, HOSTILE)
    return watcher.shell


@pytest.mark.parametrize("which", OBJECTS)
def test_no_code_of_an_object_runs(hostile, which):
    run(hostile, OBJECTS[which])
    hostile.user_ns["calls"].clear()  # Of making it.
    report = run(hostile, "w = torch.ones(2, requires_grad=True)", "(w * w).sum().backward()")
    assert hostile.user_ns["calls"] == []
    assert "w" in report.after
    hostile.user_ns["quiet"] = True  # What becomes of it when the shell goes is not ours.


@pytest.mark.parametrize("which", OBJECTS)
def test_the_fence_has_nothing_to_do(hostile, which):
    """Not one of them costs the report anything (see the fixture), or a cut."""
    report = run(hostile, OBJECTS[which])
    assert report.failures == ()
    assert report.cuts == ()
    hostile.user_ns["quiet"] = True


FOUND = {
    "slots": "evil.v",
    "list": "evil[0]",
    "tuple": "evil[0]",
    "dict": 'evil["w"]',
    "ordered dict": 'evil["w"]',
    "namedtuple": "evil.x",
    "key": "list(evil.values())[0]",
    "module": "evil.fc.weight",
    "module with odd holders": "evil.w",
    "dict of another class as instance dict": "evil.w",
    "optimizer": 'evil.param_groups[0]["params"][0]',
    "tensor function": "evil",
    "tensor properties": "evil",
    "tensor dispatch": "evil",
    "metaclass of a tensor": "evil",
}


@pytest.mark.parametrize("which", FOUND)
def test_the_tensors_of_hostile_objects_are_found_all_the_same(hostile, which):
    assert FOUND[which] in run(hostile, OBJECTS[which]).after
    hostile.user_ns["quiet"] = True


@pytest.mark.parametrize(
    "touch",
    ["evil.w", "len(evil)", "evil == 1", "repr(evil)", "iter(evil)", "hash(evil)", "bool(evil)"],
)
def test_the_traps_do_count(hostile, touch):
    """Else the tests above would prove nothing."""
    run(hostile, OBJECTS["object"])
    hostile.user_ns["calls"].clear()
    run(hostile, f"try: {touch}\nexcept RuntimeError: pass")
    assert hostile.user_ns["calls"]
    hostile.user_ns["quiet"] = True


@pytest.mark.parametrize(
    ("which", "touch"),
    [
        ("class property", "isinstance(evil, int)"),
        ("dict property", "vars(evil)"),
        ("metaclass", "type(evil[0]) in {int: 1}"),
        ("metaclass properties", "type(evil).__name__"),
        ("metaclass of a tensor", "type(evil) == torch.Tensor"),
        ("key in the instance dict", "getattr(evil, 'w')"),
        ("tensor function", "evil + 1"),
        ("tensor properties", "evil.shape"),
        ("tensor dispatch", "torch.Tensor.shape.__get__(evil)"),
        ("gradient of another class", "evil.grad._version"),
        ("context of a custom function", "evil.grad_fn.name()"),
        ("lazy import", "evil.x"),
    ],
)
def test_each_trap_is_one_that_a_careless_look_runs_into(hostile, which, touch):
    run(hostile, OBJECTS[which])
    hostile.user_ns["calls"].clear()
    run(hostile, f"try: {touch}\nexcept RuntimeError: pass")
    assert hostile.user_ns["calls"]
    hostile.user_ns["quiet"] = True


def test_a_variable_whose_name_is_hostile_is_left_alone(hostile):
    run(
        hostile,
        "class Name(str):\n"
        "    def __hash__(self):\n"
        "        return str.__hash__(self) if quiet else traps['__hash__']()\n"
        "    __eq__ = traps['__eq__']; lstrip = startswith = traps['get']\n"
        "quiet = True; globals()[Name('odd')] = torch.ones(2); quiet = False",
    )
    hostile.user_ns["calls"].clear()
    run(hostile, "a = 1")
    assert hostile.user_ns["calls"] == []
    hostile.user_ns["quiet"] = True
    for key in [key for key in hostile.user_ns if type(key) is not str]:
        del hostile.user_ns[key]


def test_an_attribute_with_a_side_effect_happens_as_often_as_the_cell_says(hostile):
    run(
        hostile,
        "class Tape:\n"
        "    n = 0\n"
        "    @property\n"
        "    def data(self):\n"
        "        Tape.n += 1\n"
        "        return torch.ones(1)\n"
        "tape = Tape()",
        "a = tape.data + tape.data",
        "b = 1",
    )
    assert hostile.user_ns["Tape"].n == 2


def test_lazy_parameters_are_not_materialized(hostile):
    report = run(hostile, "net = nn.Sequential(nn.LazyLinear(2))")
    assert report.after["net[0].weight"].shape is None
    assert isinstance(hostile.user_ns["net"][0].weight, nn.UninitializedParameter)


MODES = """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Functions(TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        seen.append(f); return f(*args, **(kwargs or {}))
class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        seen.append(f); return f(*args, **(kwargs or {}))
"""
WORK = "y = (w * w).sum()\ny.backward()\nz = y.detach()\nw.grad = None"


@pytest.mark.parametrize("mode", ["Functions()", "Operations()"])
def test_a_mode_that_is_on_across_cells_sees_only_the_cells_own_calls(shell, mode):
    from ipy_autogradwatch import notebook

    def record():
        names = shell.user_ns
        run_plain(shell, MODES, "w = torch.ones(2, requires_grad=True)\nm = " + mode)
        run_plain(shell, "m.__enter__()", WORK, "m.__exit__(None, None, None)")
        return [str(each) for each in names["seen"]]

    def run_plain(shell, *cells):
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()

    run_plain(shell, "import torch; from torch import nn")
    plain = record()
    notebook.load(shell)
    assert record() == plain
    assert len(plain) > 3  # The mode does see things.


def test_a_mode_does_not_see_a_wrapper_tensor_being_described(hostile):
    run(hostile, OBJECTS["tensor dispatch"], MODES)
    hostile.user_ns["calls"].clear()
    run(hostile, "m = Operations(); m.__enter__()", "a = 1", "m.__exit__(None, None, None)")
    assert hostile.user_ns["seen"] == hostile.user_ns["calls"] == []
    hostile.user_ns["quiet"] = True


def test_under_gradcheck_gradients_of_other_classes_are_not_computed_with(hostile):
    run(hostile, OBJECTS["gradient of another class"])
    hostile.user_ns["calls"].clear()
    report = run(hostile, "%%gradcheck\nevil.requires_grad")
    assert hostile.user_ns["calls"] == []
    assert report.after["evil"].grad is not None
    hostile.user_ns["quiet"] = True


def test_containers_that_another_thread_changes_are_read_without_harm(watcher):
    report = run(
        watcher.shell,
        "import threading, torch\n"
        "shared, stop = {}, threading.Event()\n"
        "def fill():\n"
        "    n = 0\n"
        "    while not stop.is_set():\n"
        "        n += 1\n"
        "        shared[n % 500] = torch.ones(1) if n % 50 == 0 else n\n"
        "        shared.pop((n * 7) % 500, None)\n"
        "thread = threading.Thread(target=fill); thread.start()",
        *["a = 1"] * 30,
        "stop.set(); thread.join()",
    )
    assert report.failures == ()


MODE = """
import torch
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    seen = []
    def __torch_function__(self, function, types, args=(), kwargs=None):
        Mode.seen.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))
w = torch.ones(2, requires_grad=True)
with Mode():
    w.data.add_(1)
    l = (w * w).sum()
    l.backward()
Mode.seen"""


def test_a_mode_sees_the_operations_of_data_and_backward_and_none_of_ours(shell):
    from ipy_autogradwatch import notebook

    plain = shell.run_cell(MODE, store_history=True).result
    notebook.load(shell)
    watched = shell.run_cell(MODE, store_history=True).result
    assert watched == plain
    assert "add_" in watched
