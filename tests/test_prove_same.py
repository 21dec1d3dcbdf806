"""A checked cell does what the plain cell does, whatever else is going on in it."""

from __future__ import annotations

import warnings

import pytest
import torch
from conftest import new_shell
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import ipy_autogradwatch as aw
from ipy_autogradwatch import notebook

START = (
    "import torch, copy, pickle, threading\n"
    "import torch.nn as nn\n"
    "torch.manual_seed(0)\n"
    "x = torch.randn(4, 3, requires_grad=True)\n"
)
PROGRAMS = {
    "compiled": (
        'f = torch.compile(lambda t: (t*t).sin().sum(), backend="eager")\nf(x).backward()'
    ),
    "compiled by AOT": (
        'f = torch.compile(lambda t: (t*t).sin().sum(), backend="aot_eager")\nf(x).backward()'
    ),
    "workers that load": (
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "m = nn.Linear(3,1)\n"
        "for (b,) in DataLoader(TensorDataset(torch.randn(8,3)), batch_size=4, num_workers=2):\n"
        "    m(b).sum().backward()"
    ),
    "traced": ("m = torch.jit.trace(nn.Linear(3,2), torch.randn(1,3))\nm(x).sum().backward()"),
    "scripted": (
        "@torch.jit.script\n"
        "def f(t: torch.Tensor) -> torch.Tensor:\n"
        "    return (t * t).sum()\n"
        "f(x).backward()"
    ),
    "copied and pickled": (
        "m = nn.Linear(3,2); m2 = copy.deepcopy(m); b = pickle.dumps(m)\nm2(x).sum().backward()"
    ),
    "another default dtype": (
        "torch.set_default_dtype(torch.float64)\n"
        "y = nn.Linear(3,2)(x.double()).sum()\n"
        "y.backward()\n"
        "torch.set_default_dtype(torch.float32)"
    ),
    "inference mode": ("with torch.inference_mode():\n    z = x * 2\n(x * x).sum().backward()"),
    "a dispatch mode": (
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "class M(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\n"
        "with M():\n"
        "    (x * x).sum().backward()"
    ),
    "a function mode": (
        "from torch.overrides import TorchFunctionMode\n"
        "class M(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\n"
        "with M():\n"
        "    (x * x).sum().backward()"
    ),
    "saved-tensor hooks": (
        "with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):\n"
        "    (x.exp()).sum().backward()"
    ),
    "anomaly detection": (
        "with torch.autograd.set_detect_anomaly(True):\n    (x.exp()).sum().backward()"
    ),
    "functional.jacobian": ("torch.autograd.functional.jacobian(lambda t: t.exp().sum(0), x)"),
    "forward mode": (
        "import torch.autograd.forward_ad as fw\n"
        "with fw.dual_level():\n"
        "    d = fw.make_dual(x, torch.ones_like(x))\n"
        "    y = (d * d).sum()\n"
        "    t = fw.unpack_dual(y).tangent\n"
        "y.backward()"
    ),
    "a closure": (
        "w = torch.randn(3, requires_grad=True)\n"
        "o = torch.optim.LBFGS([w])\n"
        "def c():\n"
        "    o.zero_grad()\n"
        "    l = (w**2).sum()\n"
        "    l.backward()\n"
        "    return l\n"
        "o.step(c)"
    ),
    "sparse": (
        "i = torch.sparse_coo_tensor([[0,1],[1,2]],[1.,2.],(4,3))\n"
        "(torch.sparse.mm(i.t(), x)).sum().backward()"
    ),
    "foreach optimizer": (
        "m = nn.Linear(3,1); o = torch.optim.AdamW(m.parameters(), foreach=True)\n"
        "for _ in range(3):\n"
        "    o.zero_grad(); m(x).sum().backward(); o.step()"
    ),
    "fork": (
        "import os\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    (torch.ones(3, requires_grad=True)*2).sum().backward(); os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "(x*x).sum().backward()"
    ),
    "a mode entered by hand": (
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "class M(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\n"
        "m = M(); m.__enter__()\n"
        "(x * x).sum().backward()\n"
        "m.__exit__(None,None,None)"
    ),
    "await": ("import asyncio\nawait asyncio.sleep(0)\n(x*x).sum().backward()"),
    "random state": (
        "s = torch.get_rng_state()\n"
        "(x*x).sum().backward()\n"
        "assert torch.equal(s, torch.get_rng_state())"
    ),
    "a module cast": ("m = nn.Linear(3,2).half().float()\nm(x).sum().backward()"),
    "an expanded leaf": (
        "b = torch.zeros(1, requires_grad=True).expand(4,3)\n((x+b)**2).sum().backward()"
    ),
    "channels last": (
        "c = nn.Conv2d(3,4,3).to(memory_format=torch.channels_last)\n"
        "c(torch.randn(2,3,8,8).to(memory_format=torch.channels_last)).pow(2).sum().backward()"
    ),
    "no elements": ("(torch.zeros(0,3,requires_grad=True)*2).sum().backward()"),
    "a meta tensor beside": ('m = nn.Linear(3,2,device="meta")\n(x*x).sum().backward()'),
}


def state(shell):
    """Return what a cell has left behind: numbers, not objects."""
    tensors = {
        name: (
            value.detach().clone(),
            value.grad.clone() if value.is_leaf and value.grad is not None else None,
        )
        for name, value in shell.user_ns.items()
        if isinstance(value, torch.Tensor) and name[:1] != "_" and value.device.type == "cpu"
    }
    return tensors, torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype()


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.equal(a, b) if a.layout is torch.strided else True
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("cell", PROGRAMS.values(), ids=PROGRAMS)
def test_it_leaves_the_same_behind_and_settles_without_a_failure(cell):
    found = []
    for magic in ("", "%%gradcheck\n"):
        shell = new_shell()
        watcher = notebook.load(shell)
        engine = torch.autograd._engine_run_backward
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                shell.run_cell(magic + START + cell, store_history=True).raise_error()
            said = sorted({str(w.message) for w in seen})
            report = aw.last_report()
            assert list(watcher.fence.history) == []
        finally:
            notebook.unload(shell)
        assert torch.autograd._engine_run_backward is engine
        assert _get_current_dispatch_mode_stack() == []
        found.append((state(shell), said))
    assert same(found[0][0], found[1][0])
    # Not equal: PyTorch says some of its warnings once a process.
    assert set(found[1][1]) <= set(found[0][1])
    assert "wrong" not in {verdict.verdict for verdict in report.verdicts}
    assert report.verdicts
