"""What is said about each use of ``.data``, through cells of a real watched shell.

Promised: each line whose ``.data`` met a tensor gets exactly one note, of the kind that
fits what happened; nothing is said about any other ``.data``; tensors of every make are
counted and never break the watcher; and what is suggested can be typed.
"""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch
from conftest import new_shell
from support import places, run, run_failing

import ipy_autogradwatch as aw
from ipy_autogradwatch import notebook
from ipy_autogradwatch.model import (
    CellRecord,
    DataAccess,
    Severity,
    Site,
    SiteKind,
    Span,
    TensorFacts,
)
from ipy_autogradwatch.rules.data_assign import check as check_assign

READ, UPDATE, ASSIGN, CARRY = "AGW101", "AGW102", "AGW103", "AGW104"

SETUP = """\
import copy
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
w = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
x = torch.ones(3, 2, requires_grad=True)
v = torch.tensor([4.0, 5.0, 6.0])
model = nn.Linear(2, 2)
lr = 0.1
loss = (w * 2).sum()
(w * w).sum().backward()
total = 0.0
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """One watched shell for the whole file, since each test begins with `look`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        shell = new_shell()
    watcher = notebook.load(shell)
    watcher.settings.report = "off"
    yield shell
    notebook.unload(shell)
    assert list(watcher.fence.history) == []


def look(shell, *cells):
    """Return the report of the last of *cells*, in a namespace with the usual tensors."""
    for name in shell.user_ns.keys() - shell.user_ns_hidden.keys():
        del shell.user_ns[name]
    report = run(shell, SETUP, *cells)
    assert report.failures == ()
    return report


def look_failing(shell, cell):
    """Return the exception and the report of a *cell* that must raise."""
    look(shell)
    error, report = run_failing(shell, cell)
    assert report.failures == ()
    return error, report


def only_note(report):
    """Return the finding of a report that must have exactly one, and that a note."""
    assert len(report.findings) == 1, places(report)
    (finding,) = report.findings
    assert finding.severity is Severity.NOTE
    return finding


def assert_silent(report):
    """Nothing was found, and nothing of ours failed while looking."""
    assert report.failures == ()
    assert places(report) == []


# What happened decides: read.

READS = [
    "print(w.data)",
    "w.data",
    "w.data[0]",
    "print(loss.data.item())",
    "float(loss.data)",
    "f'{loss.data:.3f}'",
    "print('%s' % w.data)",
    "print(w.grad.data)",
    "w.data.numpy()",
    "np.asarray(w.data)",
    "w.data.tolist()",
    "len(w.data)",
    "w.data.shape",
    "w.data.size(0)",
    "if w.data.sum() > 1: pass",
    "assert (w.data != 7).all()",
    "w.data.mean().item()",
    "hits = (x.data.argmax(1) == 0).sum()",
    "torch.zeros_like(w.data)",
    "getattr(w, 'data')",
    "print(getattr(w, 'data', None))",
    "print(w.data.data)",
    "v.data",
    "y = v.data * 2",
]


@pytest.mark.parametrize("cell", READS)
def test_looking_at_values_is_a_read(watched, cell):
    finding = only_note(look(watched, cell))
    assert (finding.code, finding.name) == (READ, "data-read")
    assert "read" in finding.headline
    assert "Harmless" in finding.why


# Update.

UPDATES = [
    "w.data.add_(1)",
    "w.data += 1",
    "w.data -= lr * w.grad",
    "w.data **= 2",
    "w.data[...] = 0",
    "w.data[:] = v",
    "w.data[0] = 5",
    "w.data[0] += 1",
    "w.data[w.data > 0] = 0",
    "x.data[0][1] = 5",
    "w.data[0], w.data[1] = 1, 2",
    "for w.data[0] in range(3): pass",
    "x.data.T.add_(1)",
    "w.data.view(-1)[0] = 1",
    "w.data.detach().zero_()",
    "w.data.data.zero_()",
    "w.data.clamp_(0, 1).mul_(2)",
    "w.data.copy_(v)",
    "w.data.__setitem__(0, 3)",
    "w.data.__iadd__(1)",
    "w.data.numpy()[0] = 7",
    "w.grad.data.zero_()",
    "v.data.add_(1)",
    "getattr(w, 'data').zero_()",
    "torch.add(v, 1, out=w.data)",
    "torch.relu_(w.data)",
    "F.relu(w.data, inplace=True)",
    "torch._foreach_add_([w.data], 1.0)",
    "nn.init.normal_(w.data)",
    "torch.nn.init.zeros_(w.data)",
    "nn.init.xavier_uniform_(model.weight.data)",
    "[p.data.zero_() for p in model.parameters()]",
    "(lambda t: t.zero_())(w.data)",
    "d = w.data; d.zero_()",
    "(d := w.data).zero_()",
    "w.data.mul_(0.5) if lr else None",
]


@pytest.mark.parametrize("cell", UPDATES)
def test_writing_in_place_is_an_update_in_every_spelling(watched, cell):
    finding = only_note(look(watched, cell))
    assert (finding.code, finding.name) == (UPDATE, "data-update")
    assert "written through `.data`" in finding.headline


def test_a_write_by_another_name_on_a_later_line_is_an_update_at_the_line_of_data(watched):
    assert places(look(watched, "d = w.data\nprint(v)\nd.zero_()")) == [(UPDATE, 1)]


def test_a_function_that_writes_into_its_argument_makes_the_call_an_update(watched):
    report = look(watched, "def fill(t):\n    t.fill_(3)\n\nfill(w.data)")
    assert places(report) == [(UPDATE, 4)]


def test_a_function_that_only_reads_its_argument_makes_the_call_no_update(watched):
    report = look(watched, "def norm(t):\n    return t.norm()\n\nn = norm(w.data)")
    assert places(report) == [(CARRY, 4)]


def test_a_write_into_a_copy_is_no_update(watched):
    assert places(look(watched, "y = w.data.clone().zero_()"))[0][0] != UPDATE


def test_a_write_that_raised_before_it_wrote_is_no_update(watched):
    _, report = look_failing(watched, "torch.add(w, 1, out=w.data)")
    assert places(report) == [("AGW418", 1), (READ, 1)]


def test_a_write_in_one_of_many_rounds_makes_the_line_an_update(watched):
    cell = "for i in range(5):\n    d = w.data\n    if i == 3:\n        d.zero_()"
    assert places(look(watched, cell)) == [(UPDATE, 2)]


# Assign.

ASSIGNS = [
    ("w.data = v", ""),
    ("w.data = w.data - lr * w.grad", ""),
    ("w.data = w.data.half().float()", ""),
    ("setattr(w, 'data', v)", ""),
    ("w.data, total = v, 1", ""),
    ("[w.data] = [v]", ""),
    ("w.data = y = v", ""),
    ("w.data: object = v", ""),
    ("for w.data in [v, v * 2]: pass", ""),
    ("w.grad.data = v", ""),
    ("model.weight.data = torch.zeros(2, 2)", ""),
    ("w.grad = None; w.data = torch.zeros(5)", "shape (3,) → (5,)"),
    ("w.grad = None; w.data = w.data.double()", "dtype float32 → float64"),
    (
        "w.grad = None; w.data = torch.zeros(2, dtype=torch.half)",
        "shape (3,) → (2,), dtype float32 → float16",
    ),
]


@pytest.mark.parametrize(("cell", "difference"), ASSIGNS)
def test_assigning_is_an_assign_and_says_what_differs(watched, cell, difference):
    finding = only_note(look(watched, cell))
    assert (finding.code, finding.name) == (ASSIGN, "data-assign")
    assert "is assigned" in finding.headline
    assert ("→" in finding.headline) is bool(difference)
    assert difference in finding.headline


def test_setattr_says_what_differs(watched):
    report = look(watched, "w.grad = None\nsetattr(w, 'data', torch.zeros(5))")
    assert "shape (3,) → (5,)" in only_note(report).headline


def test_a_shape_that_changes_in_a_later_round_is_told(watched):
    report = look(watched, "w.grad = None\nfor n in (3, 3, 3, 4):\n    w.data = torch.zeros(n)")
    assert "shape (3,) → (4,)" in only_note(report).headline


def _assigned(before, after):
    site = Site(SiteKind.ASSIGN, 1, None, Span(1, 0, 1, 6), "w", "w.data = w.data.to(there)")
    return DataAccess(site, 1, before, assigned=after, replaced=before)


def test_another_device_is_told():
    here = TensorFacts((3,), "float32", "cpu", True, True, None, 0)
    there = TensorFacts((3,), "float32", "cuda:0", False, True, None, 0)
    (finding,) = check_assign(CellRecord(1, accesses=(_assigned(here, there),)))
    assert "(device cpu → cuda:0)" in finding.headline


def test_nobody_is_told_to_copy_to_another_device_in_place():
    here = TensorFacts((3,), "float32", "cpu", True, True, None, 0)
    there = TensorFacts((3,), "float32", "cuda:0", False, True, None, 0)
    (finding,) = check_assign(CellRecord(1, accesses=(_assigned(here, there),)))
    assert "copy_" not in finding.instead
    assert ".to(" in finding.instead


@pytest.mark.parametrize("cell", ["del w.data", "delattr(w, 'data')"])
def test_deleting_raises_as_ever_and_says_why(watched, cell):
    error, report = look_failing(watched, cell)
    assert isinstance(error, RuntimeError)
    assert "cannot be deleted" in only_note(report).headline


# Carry.

CARRIES = [
    "y = w.data",
    "y = w.data * 2",
    "y = 1 - w.data",
    "ys = [w.data, w.data]",
    "state = {'w': w.data}",
    "total += loss.data",
    "y = F.relu(w.data)",
    "y = w.data.clone()",
    "y = nn.Parameter(w.data)",
    "y = nn.Parameter(data=w.data)",
    "y = (w.data ** 2).sum() + loss",
    "values = [t.data for t in (w, x)]",
    "y = copy.deepcopy(w.data)",
    "y = w.data if lr else v",
    "y = torch.stack([w.data, v])",
    "(lambda t: t * 2)(w.data)",
    "y = getattr(w, 'data') * 2",
]


@pytest.mark.parametrize("cell", CARRIES)
def test_a_value_that_goes_on_is_carried(watched, cell):
    finding = only_note(look(watched, cell))
    assert (finding.code, finding.name) == (CARRY, "data-carried")
    assert "without its graph" in finding.headline


def test_a_value_that_is_returned_is_carried(watched):
    finding = only_note(look(watched, "def f():\n    return w.data\n\ny = f()"))
    assert (finding.code, finding.line) == (CARRY, 2)
    assert "is returned" in finding.headline


def test_a_value_of_a_tensor_without_a_graph_carries_nothing(watched):
    assert places(look(watched, "y = v.data * 2")) == [(READ, 1)]


# One finding a line and cell.


def test_a_loop_of_ten_thousand_is_one_finding_with_its_count(watched):
    finding = only_note(look(watched, "for i in range(10_000):\n    w.data.add_(1e-6)"))
    assert (finding.code, finding.line, finding.hits) == (UPDATE, 2, 10_000)
    assert "(10,000 times)" in finding.headline


@pytest.mark.parametrize(
    ("body", "code"),
    [("print(w.data, end='', file=sink)", READ), ("w.data = v", ASSIGN), ("y = w.data", CARRY)],
)
def test_every_kind_in_a_loop_is_one_finding_with_its_count(watched, body, code):
    cell = f"import io\nsink = io.StringIO()\nfor i in range(300):\n    {body}"
    finding = only_note(look(watched, cell))
    assert (finding.code, finding.line, finding.hits) == (code, 4, 300)


def test_once_is_not_counted_out_loud(watched):
    assert "times" not in only_note(look(watched, "print(w.data)")).headline


def test_two_lines_are_two_findings(watched):
    assert places(look(watched, "print(w.data)\nw.data.zero_()")) == [(READ, 1), (UPDATE, 2)]


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("print(w.data, x.data, loss.data)", READ),
        ("w.data -= lr * w.grad.data", UPDATE),
        ("w.data = w.data - lr * w.grad.data", ASSIGN),
        ("w.data, v.data = v.data, w.data", ASSIGN),
        ("y = w.data + x.data[:, 0]; print(w.data)", CARRY),
    ],
)
def test_a_line_with_several_gets_one_finding_of_the_sharpest_kind(watched, cell, code):
    finding = only_note(look(watched, cell))
    assert finding.code == code
    assert dict(finding.evidence)["also on this line"]


def test_each_cell_that_runs_it_has_the_finding_at_the_line_that_defined_it(watched):
    defined = look(watched, "def step():\n    w.data -= lr * w.grad").cell
    for _ in range(2):
        finding = only_note(run(watched, "step()"))
        assert (finding.code, finding.cell, finding.line, finding.hits) == (UPDATE, defined, 2, 1)


def test_a_line_that_did_not_run_is_not_found(watched):
    assert_silent(look(watched, "def step():\n    w.data -= 1\n\nif not lr:\n    print(w.data)"))


# A write that did harm is no note.


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("y = (w * w).sum()\nw.data.mul_(2)\ny.backward()", 2),
        ("y = (w * w).sum()\nw.data += 1\ny.backward()", 2),
        ("y = (w * w).sum()\nd = w.data\nd.zero_()\ny.backward()", 2),
        ("y = w.sigmoid()\ny.data[0] = 1\ny.sum().backward()", 2),
        ("h = w * 3\nh.data.mul_(10)\nh.sum().backward()", 2),
    ],
)
def test_a_write_that_made_a_gradient_wrong_is_one_wrong_finding_at_the_write(watched, cell, line):
    (finding,) = look(watched, cell).findings
    assert (finding.severity, finding.line) == (Severity.WRONG, line)
    assert finding.code not in (READ, UPDATE, ASSIGN, CARRY)


def test_the_same_write_after_backward_is_a_note(watched):
    finding = only_note(look(watched, "y = (w * w).sum()\ny.backward()\nw.data.mul_(2)"))
    assert (finding.code, finding.line) == (UPDATE, 3)


def test_the_same_write_into_a_graph_that_saved_nothing_is_a_note(watched):
    finding = only_note(look(watched, "y = (w * 2).sum()\nw.data.mul_(2)\ny.backward()"))
    assert (finding.code, finding.line) == (UPDATE, 2)


# Nothing for any other `.data`.

NO_TENSOR = {
    "a namespace": "from types import SimpleNamespace\nb = SimpleNamespace(data=w)\nb.data",
    "a bunch, as of sklearn": (
        "class Bunch(dict):\n"
        "    def __getattr__(self, key):\n"
        "        try:\n"
        "            return self[key]\n"
        "        except KeyError:\n"
        "            raise AttributeError(key) from None\n"
        "    def __setattr__(self, key, value):\n"
        "        self[key] = value\n"
        "b = Bunch(data=w, target=v)\n"
        "b.data = b.data * 2\n"
        "print(b.data, b['data'])"
    ),
    "numpy": "a = np.ones(3)\na.data\nmemoryview(a.data)\nnp.float32(1).data",
    "a dataclass": (
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Batch:\n"
        "    data: object\n"
        "b = Batch(w)\n"
        "b.data = v\n"
        "b.data += 1\n"
        "print(b.data)\n"
        "del b.data"
    ),
    "a named tuple": (
        "from collections import namedtuple\nb = namedtuple('B', 'data')(w)\ny = b.data * 2"
    ),
    "a packed sequence": (
        "from torch.nn.utils.rnn import pack_sequence\n"
        "p = pack_sequence([w])\n"
        "y = p.data * 2\n"
        "y.sum().backward()"
    ),
    "torch.utils.data": (
        "import torch.utils.data\n"
        "from torch.utils import data\n"
        "set_ = torch.utils.data.TensorDataset(v)\n"
        "loader = data.DataLoader(set_, batch_size=3)\n"
        "utils = torch.utils\n"
        "utils.data.DataLoader(set_)\n"
        "for (batch,) in loader:\n"
        "    print(batch)"
    ),
    "a data set's own field": (
        "class Set(torch.utils.data.Dataset):\n"
        "    def __init__(self):\n"
        "        self.data = w\n"
        "    def __len__(self):\n"
        "        return len(self.data)\n"
        "    def __getitem__(self, i):\n"
        "        return self.data[i]\n"
        "s = Set()\n"
        "len(s), s[0], s.data"
    ),
    "a module with a buffer": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('data', v)\n"
        "    def forward(self):\n"
        "        return self.data * w\n"
        "net = Net()\n"
        "net().sum().backward()\n"
        "net.data = v * 2"
    ),
    "a module with a parameter": (
        "net = nn.ParameterDict({'data': nn.Parameter(v)})\ny = net.data * 2"
    ),
    "a module with a property": (
        "class Net(nn.Module):\n"
        "    @property\n"
        "    def data(self):\n"
        "        return w\n"
        "y = Net().data * 2"
    ),
    "a UserDict": "from collections import UserDict\nu = UserDict(w=w)\nu.data['w'] = v\nu.data",
    "a class": "class Config:\n    data = w\nConfig.data\nConfig.data = v",
    "getattr on an object": (
        "from types import SimpleNamespace\nb = SimpleNamespace(data=w)\n"
        "getattr(b, 'data')\nsetattr(b, 'data', v)\ndelattr(b, 'data')"
    ),
    "an attribute of another name": "w.dtype\nw.detach()\ngetattr(w, 'shape')",
    "the type's own attribute": "torch.Tensor.data",
    "a string and a comment": "print('w.data')  # w.data",
}


@pytest.mark.parametrize("cell", NO_TENSOR.values(), ids=NO_TENSOR)
def test_nothing_is_said_of_data_that_is_no_tensors(watched, cell):
    assert_silent(look(watched, cell))


def test_silence_is_no_accident(watched):
    with pytest.raises(AssertionError):
        assert_silent(look(watched, "class Config:\n    data = w\nConfig.data.data"))


# Tensors of every make.

EXOTIC = {
    "a Parameter": ("t = nn.Parameter(torch.ones(2))", "t.data.add_(1)", UPDATE),
    "a buffer": ("t = nn.BatchNorm1d(2)", "t.running_mean.data.zero_()", UPDATE),
    "a Buffer": ("t = nn.Buffer(torch.ones(2))", "t.data.add_(1)", UPDATE),
    "a subclass": (
        "class Mine(torch.Tensor):\n    pass\nt = torch.ones(2).as_subclass(Mine)",
        "t.data.add_(1)",
        UPDATE,
    ),
    "a subclass of Parameter": (
        "class Mine(nn.Parameter):\n    pass\nt = Mine(torch.ones(2))",
        "y = t.data * 2",
        CARRY,
    ),
    "a wrapper subclass": (
        "class Wrapper(torch.Tensor):\n"
        "    @staticmethod\n"
        "    def __new__(cls, inner):\n"
        "        t = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)\n"
        "        t.inner = inner\n"
        "        return t\n"
        "    @classmethod\n"
        "    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):\n"
        "        args = [a.inner if isinstance(a, Wrapper) else a for a in args]\n"
        "        return Wrapper(func(*args, **(kwargs or {})))\n"
        "    def __repr__(self):\n"
        "        return 'wrapper'\n"
        "t = Wrapper(torch.ones(2))",
        "print(t.data)",
        READ,
    ),
    "meta, read": ("t = torch.ones(2, device='meta')", "print(t.data.shape)", READ),
    "meta, written": ("t = nn.Linear(2, 2, device='meta')", "t.weight.data.zero_()", UPDATE),
    "meta, assigned": (
        "t = nn.Linear(2, 2, device='meta')",
        "t.weight.data = torch.ones(3, device='meta')",
        ASSIGN,
    ),
    "a FakeTensor": (
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "with FakeTensorMode():\n"
        "    t = torch.ones(2, requires_grad=True)",
        "y = t.data",
        CARRY,
    ),
    "a FakeTensor under its mode": (
        "from torch._subclasses.fake_tensor import FakeTensorMode\nmode = FakeTensorMode()",
        "with mode: torch.ones(2).data.add_(1)",
        UPDATE,
    ),
    "sparse, read": ("t = torch.eye(2).to_sparse().requires_grad_()", "print(t.data)", READ),
    "sparse, written": ("t = torch.eye(2).to_sparse().requires_grad_()", "t.data.mul_(2)", UPDATE),
    "sparse CSR": ("t = torch.eye(2).to_sparse_csr()", "print(t.data)", READ),
    "complex, written": (
        "t = torch.ones(2, dtype=torch.cfloat, requires_grad=True)",
        "t.data.real.zero_()",
        UPDATE,
    ),
    "complex, carried": (
        "t = torch.ones(2, dtype=torch.cfloat, requires_grad=True)",
        "y = t.data.conj()",
        CARRY,
    ),
    "an inference tensor": (
        "with torch.inference_mode():\n    t = torch.ones(2)",
        "print(t.data)",
        READ,
    ),
    "an inference tensor, written in its mode": (
        "with torch.inference_mode():\n    t = torch.ones(2)",
        "with torch.inference_mode(): t.data.add_(1)",
        UPDATE,
    ),
    "no dimension": ("t = torch.tensor(1.0, requires_grad=True)", "t.data += 1", UPDATE),
    "no element": ("t = torch.ones(0, requires_grad=True)", "t.data.zero_()", UPDATE),
    "integers": ("t = torch.arange(3)", "t.data[0] = 5", UPDATE),
    "booleans": ("t = torch.ones(2, dtype=torch.bool)", "t.data &= False", UPDATE),
    "an expanded tensor": ("t = torch.ones(1, requires_grad=True).expand(3)", "y = t.data", CARRY),
    "a nested tensor": (
        "t = torch.nested.nested_tensor([v, v], layout=torch.jagged)",
        "print(t.data)",
        READ,
    ),
    "quantized": (
        "t = torch.quantize_per_tensor(v, 0.1, 0, torch.qint8)",
        "print(t.data)",
        READ,
    ),
    "an unnamed result": ("0", "(w * 2).data.sum().item()", READ),
    "a tensor in forward-mode differentiation": (
        "import torch.autograd.forward_ad as fwad",
        "with fwad.dual_level(): y = fwad.make_dual(v, v).data",
        READ,
    ),
}


@pytest.mark.parametrize(("setup", "cell", "code"), EXOTIC.values(), ids=EXOTIC)
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of parts that it calls a prototype.
def test_a_tensor_of_any_make_is_counted(watched, setup, cell, code):
    assert places(look(watched, setup, cell)) == [(code, 1)]


SUSPICIOUS = """\
class Suspicious(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func != torch.Tensor.data.__get__:
            raise RuntimeError("not yours")
        return super().__torch_function__(func, types, args, kwargs)
t = torch.ones(2).as_subclass(Suspicious)
"""


def test_code_of_a_subclass_is_not_run(shell, watcher):
    assert places(run(shell, SETUP, SUSPICIOUS, "y = t.data")) == [(READ, 1)]
    assert list(watcher.fence.history) == []


@pytest.mark.parametrize(
    "cell", ["print(lazy.weight.data)", "lazy.weight.data", "y = lazy.weight.data"]
)
def test_a_parameter_without_a_shape_is_counted_and_detach_is_not_advised(watched, cell):
    look(watched, "lazy = nn.LazyLinear(2)")
    watched.run_cell(cell, store_history=True)  # Printing one raises, with us or without.
    finding = only_note(aw.last_report())
    assert "detach" not in finding.instead
    assert finding.code in (READ, CARRY)


TRANSFORMS = {
    "grad": "torch.func.grad(lambda t: (t * t.data).sum())(v)",
    "grad of grad": "torch.func.grad(torch.func.grad(lambda t: t**3 * t.data))(v[0])",
    "a write under grad": "torch.func.grad(lambda t: (t * t.clone().data.add_(1)).sum())(v)",
    "vjp": "torch.func.vjp(lambda t: t.data * t, v)[1](v)[0]",
    "jvp": "torch.func.jvp(lambda t: t.data * t, (v,), (v,))[1]",
    "jacrev": "torch.func.jacrev(lambda t: t.data * t)(v)",
    "functional_call": (
        "torch.func.functional_call(model, {'weight': model.weight.data}, (x.detach(),))"
    ),
    "a custom function": "Double.apply(w)",
    "a checkpoint": "torch.utils.checkpoint.checkpoint(lambda t: t * t.data, w, use_reentrant=False)",
}
CUSTOM = """\
import torch.utils.checkpoint
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.data * 2
    @staticmethod
    def backward(ctx, g):
        return g.data * 2
"""


@pytest.mark.parametrize("cell", TRANSFORMS.values(), ids=TRANSFORMS)
def test_inside_a_transform_a_tensor_is_counted_and_the_numbers_stay(watched, cell):
    scope = {}
    exec(SETUP + CUSTOM, scope)
    report = look(watched, CUSTOM, f"y = {cell}")
    assert len(report.findings) == 1
    assert torch.equal(watched.user_ns["y"], eval(cell, scope))


def test_where_a_transform_forbids_data_the_error_is_pytorchs_own(watched):
    error, report = look_failing(watched, "torch.func.vmap(lambda t: t.data)(x)")
    assert "under vmap" in str(error)
    assert report.failures == ()


LOGGING_MODE = """\
from torch.utils._python_dispatch import TorchDispatchMode
from torch.overrides import TorchFunctionMode
class LogDispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        log.append(str(func))
        return func(*args, **(kwargs or {}))
class LogFunction(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        log.append(str(func))
        return func(*args, **(kwargs or {}))
log = []
"""


IN_A_MODE = [
    ("y = w.data * 2", CARRY),
    ("w.data.add_(1)", UPDATE),
    ("w.data += 1", UPDATE),
    ("d = w.data; d.add_(1)", UPDATE),
    ("y = w.data.sum().item()", READ),
    ("w.data = v * 2", ASSIGN),
]


@pytest.mark.parametrize(("cell", "code"), IN_A_MODE)
def test_a_dispatch_mode_sees_what_it_sees_without_us(watched, cell, code):
    report = log_is_the_same(watched, f"with LogDispatch(): {cell}")
    if "d =" in cell:
        code = CARRY  # There is no counter to watch under such a mode; the source decides.
    assert places(report) == [(code, 1)]


def test_a_function_mode_sees_what_it_sees_without_us(watched):
    for cell, code in IN_A_MODE:
        report = log_is_the_same(watched, f"with LogFunction(): {cell}")
        assert places(report) == [(code, 1)]


def log_is_the_same(shell, cell):
    """Run *cell* with us and without, and compare what its mode has seen."""
    scope = {}
    exec(SETUP + LOGGING_MODE + cell, scope)
    report = look(shell, LOGGING_MODE, cell)
    assert shell.user_ns["log"] == scope["log"] != []
    return report


# What is said of it.


@pytest.mark.parametrize("cell", ["a = w.data.numpy()", "a = np.asarray(w.data)"])
def test_an_array_that_is_kept_is_harmless_only_while_nobody_writes_into_it(watched, cell):
    finding = only_note(look(watched, cell))
    assert finding.headline == "`w.data` is read"
    assert "while nobody writes into the array" in finding.why


@pytest.mark.parametrize("cell", ["print(w.data.numpy())", "len(w.data.numpy()) == 3"])
def test_an_array_that_is_looked_at_is_only_read(watched, cell):
    assert only_note(look(watched, cell)).headline == "`w.data` is only read"


@pytest.mark.parametrize("cell", ["y = w.data.requires_grad_()", "w.data.requires_grad = True"])
def test_a_new_leaf_is_called_one(watched, cell):
    headline = only_note(look(watched, cell)).headline
    assert headline == "`w.data` becomes a new leaf without the graph of `w`"


@pytest.mark.parametrize("use", ["print(w.grad.data)", "y = w.grad.data", "w.grad.data.mul_(2)"])
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of create_graph.
def test_only_a_gradient_without_a_graph_is_said_to_have_none(watched, use):
    assert "gradient has no graph" in only_note(look(watched, use)).why
    with_graph = "(w ** 3).sum().backward(create_graph=True)\n"
    assert "has no graph" not in only_note(look(watched, with_graph + use)).why


@pytest.mark.parametrize(
    "cell",
    [
        "model.weight.data = torch.zeros(4, 2)",
        "model.weight.data = model.weight.data.double()",
        "y = torch.nn.functional.relu(model.weight.data)",
        "some_prediction, another_prediction = model.weight.data",
        "y = model.weight.data.requires_grad_()",
        "y = model.weight.data",
        "for i in range(300): y = model.weight.data",
        "print(model.weight.data)",
        "model.weight.data.zero_()",
    ],
)
def test_a_headline_fits_into_a_line_of_a_terminal(watched, cell):
    finding = only_note(look(watched, cell))
    assert len(f"  note AGW101  line 10: {finding.headline}") <= 88


# What to type instead.

SUGGESTIONS = [
    ("print(w.data)", "print(w.detach())"),
    ("print(w.data)  # as ever", "print(w.detach())"),
    ("print('# of', w.data)", "print('# of', w.detach())"),
    ("loss.data", "loss.detach()"),
    ("print(loss.data.item())", "print(loss.item())"),
    ("print(f'{loss.data:.3f}')", "print(f'{loss.detach():.3f}')"),
    ("w.data.shape", "w.shape"),
    ("a = w.data.numpy()", "a = w.detach().numpy()"),
    ("print(w.grad.data)", "print(w.grad)"),
    ("v.data", "v"),
    ("y = v.data * 2", "y = v * 2"),
    ("print(w.data.data)", "print(w.detach())"),
    ("print(getattr(w, 'data'))", "print(w.detach())"),
    ("print(w.data, v.data)", "print(w.detach(), v)"),
    ("if w.data.sum() > 1:\n    pass", "if w.detach().sum() > 1:"),
    ("y = w.data * 2", "y = w.detach() * 2"),
    ("y = -w.data[0]", "y = -w.detach()[0]"),
    ("values = [t.data for t in (w, x)]", "values = [t.detach() for t in (w, x)]"),
    ("d = w.data; d.zero_()", "d = w.detach()"),
    ("w.data.add_(1)", "with torch.no_grad(): w.add_(1)"),
    ("w.data[0] = 5", "with torch.no_grad(): w[0] = 5"),
    ("w.data[w.data > 0] = 0", "with torch.no_grad(): w[w > 0] = 0"),
    ("w.data.sub_(lr * w.grad.data)", "with torch.no_grad(): w.sub_(lr * w.grad)"),
    ("torch.add(v, 1, out=w.data)", "with torch.no_grad(): torch.add(v, 1, out=w)"),
    ("nn.init.ones_(w.data)", "nn.init.ones_(w)"),
    ("w.grad.data.zero_()", "w.grad = None    # or optimizer.zero_grad()"),
    ("w.data = v", "with torch.no_grad(): w.copy_(v)"),
    ("w.data = w.data * 2", "with torch.no_grad(): w.copy_(w * 2)"),
    (
        "w.grad = None; w.data = torch.zeros(5)",
        "w = torch.nn.Parameter(torch.zeros(5))    # and a new optimizer",
    ),
    ("for p in (w, x):\n    p.data.mul_(2)", "with torch.no_grad(): p.mul_(2)"),
    ("for p in (w, x):\n    p.data -= lr", "with torch.no_grad(): p.sub_(lr)"),
    ("w.data -= lr", "with torch.no_grad(): w -= lr"),
    ("model.weight.data -= lr", "with torch.no_grad(): model.weight.sub_(lr)"),
    (
        "next(model.parameters()).data += 1",
        "with torch.no_grad(): next(model.parameters()).add_(1)",
    ),
    ("w.data @= torch.ones(3, 3)", "with torch.no_grad(): …    # and w in place of w.data"),
    ("for w.data[0] in range(3): pass", "with torch.no_grad(): …    # and w in place of w.data"),
    (
        "w.data.add_(" + " + ".join(["0.125"] * 40) + ")",
        "with torch.no_grad(): …    # and w in place of w.data",
    ),
    (
        "w.data -= lr * torch.autograd.grad((w * w).sum(), w)[0]",
        "with torch.no_grad(): …    # and w in place of w.data",
    ),
    ("y = w * w.data.mul_(2).sum()", "y = w * w.detach().mul_(2).sum()"),
    ("f = lambda: w.data.zero_()\nf()", "f = lambda: w.detach().zero_()"),
    ("w.data.mul_(2) if lr else None", "with torch.no_grad(): w.mul_(2) if lr else None"),
    ("w.data.numpy()[0] = 7", "with torch.no_grad(): w[0] = 7"),
    ("w.data.numpy()[::-1] = 7", "with torch.no_grad(): …    # and w in place of w.data"),
    ("v.data.add_(1)", "v.add_(1)"),
    ("v.data += lr", "v += lr"),
    ("v.data.add_(w)", "with torch.no_grad(): v.add_(w)"),
    ("ws = [w]\nv.data.add_(ws[0])", "with torch.no_grad(): v.add_(ws[0])"),
    ("v.data.add_(w.data)", "v.add_(w.detach())"),
    ("w.grad.data.fill_(0)", "w.grad.fill_(0)"),
    ("w.grad.data = v", "w.grad = v"),
    ("with torch.no_grad(): w.data.zero_()", "w.zero_()"),
    ("with torch.no_grad():\n    for p in (w, x):\n        p.data -= 1", "p.sub_(1)"),
    ("@torch.no_grad()\ndef step(p):\n    if lr:\n        p.data -= 1\nstep(w)", "p.sub_(1)"),
    ("w.data = y = v", "with torch.no_grad(): w.copy_(…)"),
    ("w.data = w.data.t()", "with torch.no_grad(): w.copy_(w.t().clone())"),
    ("w.data = torch.clamp(w.data, 0)", "with torch.no_grad(): w.copy_(torch.clamp(w, 0))"),
    ("setattr(w, 'data', v)", "with torch.no_grad(): w.copy_(v)"),
    ("v.data = torch.zeros(5)", "v = torch.zeros(5)"),
    (
        "model.weight.data = torch.zeros(3, 2)",
        "model.weight = torch.nn.Parameter(torch.zeros(3, 2))    # and a new optimizer",
    ),
    (
        "ps = (nn.Parameter(v),)\nps[0].data = torch.zeros(5)",
        "… = torch.nn.Parameter(torch.zeros(5))    # and a new optimizer",
    ),
    (
        "for p in model.parameters():\n    p.data = p.data.double()",
        "model.to(torch.float64)    # all its parameters, and then the optimizer",
    ),
    ("y = [w.data,\n     v.data]", "y = [w.detach(), v]"),
    ("y = (w  # here\n     .data\n     .mean())", "y = (w.detach().mean())"),
    ('print("w.data is", w.data)', 'print("w.data is", w.detach())'),
    ("y = 'w.data' + f'w.data {w.data}'", "y = 'w.data' + f'w.data {w.detach()}'"),
    ("getattr(w, 'data', None)", "w.detach()"),
    ('y = getattr(w + 1, "data")[0]', "y = (w + 1).detach()[0]"),
    ("names = {'a  b': w}\nnames['a  b'].data", "names['a  b'].detach()"),
    ("y = x.data.detach()", "y = x.detach()"),
    ("y = torch.tensor(w.data)", "y = w.detach().clone()"),
    (
        "(w ** 3).sum().backward(create_graph=True)\ny = w.grad.data * 2",
        "y = w.grad.detach() * 2",
    ),
    ("elif_ = 1\nif not lr: pass\nelif w.data.sum() > 1: pass", "elif w.detach().sum() > 1: pass"),
    ("match lr:\n    case _ if w.data.sum() > 1: pass", "case _ if w.detach().sum() > 1: pass"),
]


@pytest.mark.parametrize(("cell", "instead"), SUGGESTIONS)
@pytest.mark.filterwarnings("ignore")
def test_the_suggestion_is_the_users_own_statement_put_right(watched, cell, instead):
    findings = look(watched, cell).findings
    assert {finding.severity for finding in findings} == {Severity.NOTE}
    assert {finding.instead for finding in findings} == {instead}


def test_an_item_of_a_number_is_its_item(watched):
    error, report = look_failing(watched, "total += loss.data[0]")
    assert isinstance(error, IndexError)
    assert only_note(report).instead == "total += loss.item()"


def test_a_read_on_another_line_of_a_write_is_put_right_on_its_own(watched):
    report = look(watched, "w.data.sub_(\n    lr * w.grad.data,  # a step\n)")
    assert places(report) == [(UPDATE, 1), (READ, 2)]
    assert report.findings[0].instead.startswith("with torch.no_grad(): w.sub_(lr * w.grad")
    assert report.findings[1].instead == "w.grad"


def test_of_very_many_lines_the_last_get_a_general_suggestion(watched):
    report = look(watched, "\n".join(["y = w.data + 1", "w.data.add_(1)", "w.data = v"] * 40))
    assert len(report.findings) == 120
    by_line = {finding.line: finding.instead for finding in report.findings}
    assert by_line[1] == "y = w.detach() + 1"
    assert by_line[118] == "w.detach()"
    assert by_line[119] == "with torch.no_grad(): …    # and w in place of w.data"
    assert by_line[120] == "with torch.no_grad(): w.copy_(…)"


def compiles(suggestion):
    """Whether *suggestion* can be typed; what has an ellipsis does not claim to."""
    if "…" in suggestion:
        return True
    text = suggestion + (" pass" if suggestion.endswith(":") else "")
    text = {"elif": "if 0: pass\n", "case": "match 0:\n "}.get(suggestion[:4], "") + text
    try:
        ast.parse("async def f():\n" + textwrap.indent(text, "    "))
    except SyntaxError:
        return False
    return True


def test_whether_a_suggestion_compiles_is_really_checked():
    assert compiles("with torch.no_grad(): w.copy_(v)")
    assert compiles("if w.detach().sum() > 1:")
    assert not compiles("with torch.no_grad(): w.copy_(v; z = 3)")


ODD_STATEMENTS = [
    "w.data = v  # it's the user's own",
    "w.data = y = v",
    "w.data = v; y = 3",
    "w.data, v.data = v.data, w.data",
    "w.data: object = v",
    "setattr(w, 'data', torch.zeros(3, dtype=torch.float32))",
    "next(model.parameters()).data += 1",
    "(w\n .data\n .add_(1))",
    "y = (w\n     .data\n     .mean())",
    "try:\n    1 / 0\nexcept ZeroDivisionError: w.data.zero_()",
    "try: pass\nfinally: w.data.zero_()",
    "if not lr: pass\nelse: w.data.zero_()",
    "with torch.no_grad(): w.data.zero_()",
    "for p in model.parameters(): p.data.zero_()",
    "def reset(): w.data.zero_()\nreset()",
    "class Reset: w.data.zero_()",
    "%time w.data.add_(1)",
    "w.data.add_(" + " + ".join(["0.125"] * 40) + ")",
    "y = w.data + (" + " + ".join(["0.125"] * 40) + ")",
    "print(f'{w.data}, {w.data!r}, {\"a\"}')",
    "print(w.data, end='# no comment\\n')",
    "y = [w.data,\n     v.data]",
    "y = {'a': w.data}['a']",
    "y = (lambda: w.data)()",
    "f = lambda: w.data.zero_()\nf()",
    "async def f():\n    return w.data\nawait f()",
    "def f():\n    yield w.data\nnext(f())",
    "y = w.data if lr else w.data * 2",
    "w.data.mul_(2) if lr else None",
    "assert w.data is not None, w.data",
    "names = {'a  b': w}\nnames['a  b'].data",
    "getattr(w, 'data', None)",
]


EVERYTHING = [*READS, *UPDATES, *CARRIES, *(cell for cell, _ in ASSIGNS), *ODD_STATEMENTS]


def each(cells):
    """Return *cells* as parameters, each with an id on one line."""
    return [pytest.param(cell, id=cell.replace("\n", "; ")[:60]) for cell in cells]


@pytest.mark.parametrize("cell", each(EVERYTHING))
def test_what_looks_like_a_statement_compiles_and_does_without_data(watched, cell):
    for finding in look(watched, cell).findings:
        assert compiles(finding.instead), finding.instead
        typed = finding.instead.partition("    #")[0]
        assert typed
        assert ".data" not in typed
        assert "'data'" not in typed


SAME_EFFECT = [
    "y = w.data * 2",
    "y = w.data.clone()",
    "y = loss.data",
    "y = loss.data.item()",
    "y = w.data.numpy().sum()",
    "y = v.data + 1",
    "y = [t.data for t in (w, x)]",
    "w.data.add_(1)",
    "w.data += 1",
    "w.data -= lr * w.grad",
    "w.data -= lr * w.grad.data",
    "w.data **= 2",
    "w.data[...] = 0",
    "w.data[0] += 1",
    "w.data[w.data > 0] = 0",
    "w.data.numpy()[0] = 7",
    "w.data.copy_(v)",
    "w.data.view(-1)[0] = 1",
    "x.data.T.add_(1)",
    "nn.init.ones_(w.data)",
    "torch.add(v, 1, out=w.data)",
    "F.relu(w.data, inplace=True)",
    "d = w.data; d.zero_()",
    "[p.data.zero_() for p in model.parameters()]",
    "for p in (w, x):\n    p.data -= 1",
    "params = (w, x)\nparams[0].data -= 1",
    "def step():\n    w.data -= 1\nstep()",
    "w.data = v.clone()",
    "w.data = w.data - lr * w.grad",
    "w.data = w.data.clamp(0, 1)",
    "w.data = w.data[[2, 0, 1]]",
    "w.grad = None; w.data = w.data.double()",
    "w.grad = None; w.data = torch.zeros(5)",
    "w.grad.data = v",
    "w.grad.data = w.grad.data.clamp(-1, 1)",
    "v.data = (w * 3)[:2]",
    "v.data = v * 3",
    "v.data += 1",
    "v.data.add_(w)",
    "v.data.copy_(w.data)",
    "v.data[0] = w.data[1]",
    "v.data.add_(x.T[0][0].item())",
    "w.grad.data *= 0.5",
    "w.grad.data.fill_(0)",
    "w.grad.data.clamp_(-1, 1)",
    "w.data.numpy()[:] = np.ones(3)",
    "w.data.numpy()[0] += 1",
    "w.data.numpy().fill(2)",
    "w.data.numpy().sort()",
    "w.data.copy_(torch.from_numpy(x.data.cpu().numpy()[:, 0]))",
    "w.data[:] = torch.from_numpy(np.asarray(x.data)[:, 0])",
    "next(model.parameters()).data += 1",
    "names = {'a  b': w}\nnames['a  b'].data **= 2",
    "ids = w.detach().int()\nids.data <<= 1",
    "w.data //= 2",
    "w.data %= 2",
    "w.data /= 1 if lr else 2",
    "f = lambda: w.data.zero_()\nf()",
    "y = (w.data.mul_(2) + w).sum()",
    "y = []; y.append(F.relu(w.data, inplace=True))",
    "y = torch.tensor(w.data)",
    "y = torch.tensor(w.data, dtype=torch.float64, requires_grad=True)",
    "y = x.data.detach()",
    "y = w.data.requires_grad_()",
    "y = getattr(w * 2, 'data', None)",
    "y = 'w.data is ' + str(w.data)",
    "y = f'w.data {w.data} {v.data}' 'w.data'",
    "model.weight.data = torch.zeros(2, 2)",
    "model.weight.data = model.weight.data.t()",
    "v.data = torch.zeros(5)",
    "y = (w * 2).sum(); w.data.add_(1)",
    "y = w * w.data.mul_(2).sum()",
    "(w ** 3).sum().backward(create_graph=True)\ny = w.grad.data * 2",
]


@pytest.mark.parametrize("cell", each(SAME_EFFECT))
@pytest.mark.filterwarnings("ignore")
def test_the_suggestion_does_what_the_users_statement_does(watched, cell):
    finding = only_note(look(watched, cell))
    assert "…" not in finding.instead
    lines = cell.split("\n")
    lines[finding.line - 1] = put_right(lines[finding.line - 1], finding.instead)
    theirs, ours = {}, {}
    exec(SETUP + cell, theirs)
    exec(SETUP + "\n".join(lines), ours)
    for name in ("w", "x", "v", "loss", "y", "ids"):
        assert same(theirs.get(name), ours.get(name)), name
    assert same(theirs["w"].grad, ours["w"].grad)
    assert all(map(same, theirs["model"].parameters(), ours["model"].parameters()))


COUNTED = [
    "w.data.add_(1)",
    "w.data += 1",
    "w.data[0] = 1",
    "w.data = v",
    "w.data.numpy()[0] = 7",
    "w.data.numpy().fill(2)",
    "y = w * w.data.mul_(2).sum()",
    "f = lambda: w.data.zero_(); f()",
    "d = w.data; d.zero_()",
    "(lambda t: t.zero_())(w.data)",
]


@pytest.mark.parametrize("cell", COUNTED)
def test_the_suggestion_for_a_write_is_one_that_backward_notices(watched, cell):
    finding = only_note(look(watched, cell))
    theirs, ours = {}, {}
    exec(f"{SETUP}saved = (w * w).sum()\n{cell}", theirs)
    exec(f"{SETUP}saved = (w * w).sum()\n{put_right(cell, finding.instead)}", ours)
    theirs["saved"].backward()
    with pytest.raises(RuntimeError, match="inplace"):
        ours["saved"].backward()


def put_right(line, instead):
    """Return *line* with *instead* for its statement with ``.data``."""
    indent = line[: len(line) - len(line.lstrip())]
    statements = line.strip().split("; ")
    index = next(i for i, s in enumerate(statements) if ".data" in s or "'data'" in s)
    # A block ends with its line.
    return "\n".join(indent + s for s in [*statements[:index], instead, *statements[index + 1 :]])


def same(one, other):
    """Whether two values are equal, and two tensors as connected."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if not isinstance(one, torch.Tensor):
        return one == other
    return (
        torch.equal(one, other)
        and (one.dtype, one.requires_grad) == (other.dtype, other.requires_grad)
        and (one.grad_fn is None) is (other.grad_fn is None)
    )


def test_whether_two_values_are_the_same_is_really_checked():
    w = torch.ones(2, requires_grad=True)
    assert same(w, torch.ones(2, requires_grad=True))
    assert not same(w, torch.ones(2))
    assert not same(w * 2, w.detach() * 2)
    assert not same(w, torch.zeros(2, requires_grad=True))
