"""An error of autograd is explained at its line, once, in whatever spelling it comes."""

from __future__ import annotations

import pytest
from programs import alarms, watch

START = "import torch, copy\nimport torch.nn as nn\nimport numpy as np\n"

PROGRAMS = {
    "int grad list": (
        "class M:\n    def __init__(s):\n        s.w = nn.Parameter(torch.arange(3))\nM()",
        ("AGW407", 6),
    ),
    "int req": (
        "idx = torch.randint(0, 5, (3,))\nidx.requires_grad_()",
        ("AGW407", 5),
    ),
    "np.array": (
        "m = nn.Linear(2,1)\ndef plot(t):\n    return np.asarray(t)\nplot(m(torch.ones(1,2)))",
        ("AGW408", 6),
    ),
    "grad numpy": (
        "x = torch.ones(2, requires_grad=True)\n"
        "y = (x**3).sum()\n"
        "g, = torch.autograd.grad(y, x, create_graph=True)\n"
        "g.numpy()",
        ("AGW408", 7),
    ),
    "deepcopy module": (
        "class N(nn.Module):\n"
        "    def __init__(s):\n"
        "        super().__init__(); s.l = nn.Linear(2,1)\n"
        "    def forward(s, x):\n"
        "        s.last = s.l(x)\n"
        "        return s.last\n"
        "net = N()\n"
        "net(torch.ones(1,2))\n"
        "ema = copy.deepcopy(net)",
        ("AGW409", 12),
    ),
    "unused": (
        "w = torch.ones(2, requires_grad=True)\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "out = (w.detach() * x).sum()\n"
        "torch.autograd.grad(out, (w, x))",
        ("AGW411", 7),
    ),
    "unused not rg": (
        "x = torch.ones(2)\n"
        "w = torch.ones(2, requires_grad=True)\n"
        "torch.autograd.grad((w*x).sum(), x)",
        ("AGW411", 6),
    ),
    "flag": (
        "m = nn.Linear(2,1)\nf = m(torch.ones(1,2))\nf.requires_grad_(False)",
        ("AGW412", 6),
    ),
    "opt gen": (
        "m = nn.Linear(2,1)\n"
        "ps = m.parameters()\n"
        "n = sum(p.numel() for p in ps)\n"
        "opt = torch.optim.Adam(ps)",
        ("AGW308", 7),
    ),
    "opt list": (
        "class N(nn.Module):\n"
        "    def __init__(s):\n"
        "        super().__init__(); s.ls = [nn.Linear(2,1)]\n"
        "opt = torch.optim.SGD(N().parameters(), lr=.1)",
        ("AGW413", 7),
    ),
    "grad shape": (
        "w = torch.ones(3, requires_grad=True)\nw.grad = torch.ones(2)",
        ("AGW414", 5),
    ),
    "grad shape2": (
        "w = torch.ones(3, requires_grad=True)\n(w*2).backward(gradient=torch.ones(3,3))",
        ("AGW414", 5),
    ),
    "hook": (
        "x = torch.ones(3)\nx.retain_grad()",
        ("AGW415", 5),
    ),
    "split": (
        "x = torch.ones(4, requires_grad=True)\na, b = (x*2).chunk(2)\nb.mul_(2)",
        ("AGW417", 6),
    ),
    "nograd view": (
        "x = torch.ones(4, requires_grad=True)\nwith torch.no_grad():\n    v = x[:2]\nv.add_(1)",
        ("AGW417", 7),
    ),
    "fn shape": (
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x.sum()\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return torch.ones(7)\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "F.apply(x).backward()",
        ("AGW416", 10),
    ),
    "expand": (
        "x = torch.ones(3, requires_grad=True)\ny = x.expand(2,3)\ny[0] = 5",
        ("AGW402", 6),
    ),
    "detach_ view": (
        "x = torch.ones(3, requires_grad=True)\ny = (x*2)[0]\ny.detach_()",
        ("AGW417", 6),
    ),
    "plot": (
        "x = torch.ones(3, requires_grad=True)\n"
        "losses=[(x*2).sum()]\n"
        "np.mean([l.numpy() for l in losses])",
        ("AGW408", 6),
    ),
    "tensor in float list": (
        "x = torch.ones(3, requires_grad=True)\nnp.array([x, x])",
        ("AGW408", 5),
    ),
    "bool loss": (
        "p = torch.rand(3, requires_grad=True)\nacc = (p > .5).float().mean()\nacc.backward()",
        ("AGW401", 5),
    ),
    "twice lstm": (
        "r=nn.RNN(2,3); h=None\n"
        "for i in range(2):\n"
        "    o,h=r(torch.ones(1,1,2),h)\n"
        "    o.sum().backward()",
        ("AGW404", 6),
    ),
    "assign param": (
        "m=nn.Linear(2,1)\nm.weight = m.weight * 2",
        ("AGW420", 5),
    ),
    "leaf view": (
        "w=torch.ones(3,requires_grad=True)\nw[0] = 5",
        ("AGW402", 5),
    ),
}


@pytest.mark.parametrize(("cell", "found"), PROGRAMS.values(), ids=PROGRAMS)
def test_an_error_is_explained_at_its_line(cell, found):
    reports, (error,), failures = watch([START + cell])
    assert error is not None
    assert failures == []
    assert [(code, line) for code, _, line in alarms(reports)] == [found]


@pytest.mark.parametrize(("cell", "found"), PROGRAMS.values(), ids=PROGRAMS)
def test_an_error_that_is_caught_is_the_users_own_affair(cell, found):
    body = "".join(f"    {line}\n" for line in cell.splitlines())
    reports, (error,), failures = watch([f"{START}try:\n{body}except Exception:\n    pass"])
    assert error is None
    assert failures == []
    assert not [code for code, _, _ in alarms(reports) if code.startswith("AGW4")]


OFF = {
    "a statement": ("torch.set_grad_enabled(False)", 1),
    "a block entered and not left": ("print(1)\ntorch.no_grad().__enter__()", 2),
    "a helper": ("def quiet():\n    torch.set_grad_enabled(False)\nquiet()", 2),
}


@pytest.mark.parametrize(("cell", "line"), OFF.values(), ids=OFF)
def test_gradients_left_off_in_another_cell_are_the_cause(cell, line):
    start = "import torch\nw = torch.ones(2, requires_grad=True)"
    reports, errors, _ = watch([start, cell, "(w * w).sum().backward()"])
    assert [bool(error) for error in errors] == [False, False, True]
    assert [(f.code, f.line) for f in reports[1].findings] == [("AGW208", line)]
    assert alarms(reports) == [("AGW401", 2, line)]


def test_gradients_switched_on_again_are_not_the_cause():
    cells = ["import torch\ntorch.set_grad_enabled(False)", "torch.set_grad_enabled(True)"]
    reports, _, _ = watch([*cells, "torch.ones(2).sum().backward()"])
    assert alarms(reports) == [("AGW401", 3, 1)]
