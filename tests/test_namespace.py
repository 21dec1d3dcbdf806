"""Every tensor of a namespace is found, goes by a name a user could type, and bounds are said.

A name is good if Python agrees: evaluating it in the namespace gives the very tensor.
"""

from __future__ import annotations

import argparse
import threading
import types
from collections import OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from ipy_autogradwatch.observe import namespace as namespace_module
from ipy_autogradwatch.observe.graph import WalkBudget
from ipy_autogradwatch.observe.identity import Identities
from ipy_autogradwatch.observe.namespace import find_tensors
from ipy_autogradwatch.observe.snapshot import states, take_snapshot


def find(max_tensors=2000, seconds=10.0, hidden=(), **namespace):
    return find_tensors(
        namespace, hidden=frozenset(hidden), max_tensors=max_tensors, seconds=seconds
    )


def names(**namespace):
    """Return the names found, each checked by evaluating it."""
    found = find(**namespace)
    assert not found.cut
    for name, tensor in found.tensors:
        assert eval(name, dict(namespace)) is tensor, name
        for other in found.also.get(name, ()):
            assert eval(other, dict(namespace)) is tensor, other
    assert len({name for name, _ in found.tensors}) == len(found.tensors), "a name twice"
    return [name for name, _ in found.tensors]


def state_of(tensor):
    """Return the `TensorState` of one variable."""
    snapshot = take_snapshot(
        {"x": tensor}, hidden=frozenset(), identities=Identities(), budget=WalkBudget(1.0)
    )
    return states(snapshot)["x"]


@dataclass
class Plain:
    w: Any
    more: list = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    w: Any
    b: Any = None


class Base:
    __slots__ = ("first",)


class Derived(Base):
    __slots__ = ("second",)


class Pair(NamedTuple):
    input: Any
    target: Any


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 3)
        self.fc2 = nn.Linear(3, 1)


def t():
    return torch.ones(2)


# Names.


def test_variables_go_by_their_names_in_the_order_of_the_namespace():
    assert names(x=t(), y=1, z=t(), a=t()) == ["x", "z", "a"]


def test_parameters_of_a_module_are_attributes():
    assert names(model=Net()) == [
        "model.fc1.weight",
        "model.fc1.bias",
        "model.fc2.weight",
        "model.fc2.bias",
    ]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Sequential(nn.Linear(1, 1, bias=False)), ["net[0].weight"]),
        (nn.ModuleList([nn.Linear(1, 1, bias=False)]), ["net[0].weight"]),
        (nn.ModuleDict({"head": nn.Linear(1, 1, bias=False)}), ['net["head"].weight']),
        (nn.ModuleDict({"a-b": nn.Linear(1, 1, bias=False)}), ['net["a-b"].weight']),
        (nn.ParameterList([t(), t()]), ["net[0]", "net[1]"]),
        (nn.ParameterDict({"w": t()}), ['net["w"]']),
        (
            nn.Sequential(OrderedDict(body=nn.Linear(1, 1, bias=False))),
            ["net.body.weight"],
        ),
        (
            nn.BatchNorm1d(1),
            [
                "net.weight",
                "net.bias",
                "net.running_mean",
                "net.running_var",
                "net.num_batches_tracked",
            ],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_container_module_holds_is_indexed_as_that_module_is(module, expected):
    assert names(net=module) == expected


def test_a_registered_name_that_is_no_identifier_is_reached_by_getattr():
    module = nn.Module()
    module.add_module("0", nn.Linear(1, 1, bias=False))
    module.register_parameter("a-b", nn.Parameter(t()))
    assert names(m=module) == ["getattr(m, 'a-b')", "getattr(m, '0').weight"]


def test_lists_tuples_and_deques_are_indexed():
    assert names(losses=[t(), t()], pair=(t(),), queue=deque([1, t()])) == [
        "losses[0]",
        "losses[1]",
        "pair[0]",
        "queue[1]",
    ]


@pytest.mark.parametrize("make", [dict, OrderedDict, lambda d: defaultdict(list, d)])
def test_items_of_a_dict_go_by_their_keys(make):
    keys = ["w", 0, -1, True and 2.5, None, (1, "a"), ("x",), 'quo"te', "new\nline", "back\\slash"]
    assert len(names(cfg=make({key: t() for key in keys}))) == len(keys)


def test_keys_that_nobody_can_type_give_each_item_a_name_of_its_own():
    class Key:
        pass

    keys = [Key(), Key(), "k" * 200, 10**30, float("nan"), (), ((1,),), t()]
    cfg = {key: t() for key in keys}
    assert names(cfg=cfg) == [f"list(cfg.values())[{n}]" for n in range(len(keys))]


def test_objects_with_a_dict_slots_or_both():
    both = Derived()
    both.first, both.second = t(), t()
    found = names(p=Plain(t(), [t()]), s=Slotted(t()), d=both)
    assert sorted(found) == ["d.first", "d.second", "p.more[0]", "p.w", "s.w"]


def test_bags_of_attributes_of_the_standard_library():
    found = names(n=types.SimpleNamespace(w=t()), a=argparse.Namespace(w=t()))
    assert found == ["n.w", "a.w"]
    assert names(d=UserDict(w=t()), l=UserList([t()])) == ['d.data["w"]', "l.data[0]"]


def test_fields_of_named_tuples_go_by_their_names():
    point = namedtuple("point", "x y")
    assert names(batch=Pair(t(), t()), p=point(t(), t())) == [
        "batch.input",
        "batch.target",
        "p.x",
        "p.y",
    ]


def test_what_a_reduction_returns_goes_by_the_names_of_its_fields():
    assert names(best=torch.ones(2, 2).max(0)) == ["best.values", "best.indices"]


def test_tensors_in_a_data_set_are_found():
    data = torch.utils.data.TensorDataset(t(), t())
    assert names(data=data) == ["data.tensors[0]", "data.tensors[1]"]


def test_plain_attributes_of_a_module_are_found():
    model = Net()
    model.history = [t()]
    model.scale = t()
    assert {"model.history[0]", "model.scale"} <= {*names(model=model)}


def test_names_of_the_shell_are_left_out():
    found = find(
        hidden=["secret"],
        **dict.fromkeys(["_", "__", "_3", "_i3", "_ih", "__x__", "In", "Out", "secret"], t()),
    )
    assert found.tensors == []
    assert names(_mine=t(), __x=t(), _i=t(), index_3=t()) == ["_mine", "__x", "index_3"]


# The best name, and the others.


def test_an_optimizer_is_folded_into_the_model():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    found = find(opt=opt, model=model)
    assert [name for name, _ in found.tensors] == names(model=model)
    assert found.also["model.fc1.weight"] == ['opt.param_groups[0]["params"][0]']


def test_an_optimizer_is_folded_into_the_model_however_deep_the_model_is():
    deep = nn.Linear(1, 1, bias=False)
    for _ in range(12):
        deep = nn.Sequential(deep)
    opt = torch.optim.SGD(deep.parameters(), 0.1)
    assert names(opt=opt, net=deep) == ["net" + "[0]" * 12 + ".weight"]


def test_parameters_that_only_an_optimizer_holds_go_by_its_groups():
    opt = torch.optim.Adam([{"params": [nn.Parameter(t())]}, {"params": [nn.Parameter(t())]}])
    assert names(opt=opt) == [
        'opt.param_groups[0]["params"][0]',
        'opt.param_groups[1]["params"][0]',
    ]


def test_an_optimizer_is_folded_into_whatever_else_holds_its_parameters():
    w = nn.Parameter(t())
    opt = torch.optim.SGD([w], 0.1)
    assert names(opt=opt, trainer=Plain(Plain(Plain([[[[w]]]])))) == ["trainer.w.w.w[0][0][0][0]"]


def test_a_list_of_parameters_does_not_rename_them():
    model = Net()
    found = find(params=list(model.parameters()), model=model)
    assert found.tensors[0][0] == "model.fc1.weight"
    assert found.also["model.fc1.weight"] == ["params[0]"]


def test_the_variable_of_a_loop_over_a_model_does_not_rename_what_it_holds():
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    layer = model[1]
    p = layer.bias
    found = find(model=model, layer=layer, p=p)
    assert [name for name, _ in found.tensors] == names(model=model)
    assert found.also["model[1].bias"] == ["p"]


def test_parts_that_were_named_before_the_whole_keep_their_names():
    generator, critic = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    gan = nn.Sequential(generator, critic)
    assert names(generator=generator, critic=critic, gan=gan) == [
        "generator.weight",
        "critic.weight",
    ]


def test_a_variable_wins_over_the_place_in_a_list():
    w = t()
    found = find(params=[w], w=w)
    assert [name for name, _ in found.tensors] == ["w"]
    assert found.also == {"w": ["params[0]"]}


def test_tied_weights_are_one_tensor_with_two_names():
    model = nn.ModuleDict({"embed": nn.Embedding(3, 2), "out": nn.Linear(2, 3, bias=False)})
    model["out"].weight = model["embed"].weight
    found = find(model=model)
    assert found.also == {'model["embed"].weight': ['model["out"].weight']}
    assert len(found.tensors) == 1


def test_a_tensor_in_very_many_places_does_not_collect_names():
    found = find(w=(w := t()), places=[w] * 500)
    assert len(found.also["w"]) < 10


# Bounds, always said.


def test_cycles_are_searched_once():
    a = Plain(t())
    a.more = [a, {"self": a}]
    a.more.append(a.more)
    module = nn.Linear(1, 1)
    module.__dict__["owner"] = [module]
    assert sorted(names(a=a, m=module)) == ["a.w", "m.bias", "m.weight"]


def nested(levels):
    value = [t()]
    for _ in range(levels - 1):
        value = [value]
    return value


def test_what_lies_too_deep_is_left_out_and_that_is_said():
    depth = namespace_module.MAX_DEPTH
    assert names(x=nested(depth)) == ["x" + "[0]" * depth]
    found = find(x=nested(depth + 1), y=t())
    assert [name for name, _ in found.tensors] == ["y"]
    assert "deeper" in found.cut


def test_depth_without_tensors_is_not_worth_a_word():
    chain = None
    for _ in range(50):
        chain = Plain(None, [chain])
    assert find(chain=chain).cut == ""


def test_modules_may_be_nested_as_deep_as_they_like():
    deep = nn.Linear(1, 1, bias=False)
    for _ in range(40):
        deep = nn.Sequential(deep)
    assert len(names(deep=deep)) == 1


@pytest.mark.parametrize("make", [list, tuple, deque, lambda items: dict(enumerate(items))])
def test_a_long_container_of_tensors_is_cut_and_that_is_said(make):
    found = find(max_tensors=10**6, long=make([t() for _ in range(1001)]))
    assert len(found.tensors) == namespace_module.MAX_ITEMS
    assert "long" in found.cut


@pytest.mark.parametrize(
    "items",
    [
        range(5000),
        [(n, "a") for n in range(5000)],
        [{"text": "a", "n": n} for n in range(5000)],
        [Plain(1, None)] * 5000,
    ],
    ids=["numbers", "pairs", "records", "objects"],
)
def test_a_long_container_without_tensors_is_not_worth_a_word(items):
    items = list(items)
    assert find(long=items, table=dict(enumerate(items))).cut == ""


def test_a_long_container_that_ends_with_a_tensor_is_cut_and_that_is_said():
    assert "long" in find(long=[0] * 5000 + [t()]).cut


def test_the_bound_on_tensors_keeps_the_variables_and_is_said():
    found = find(max_tensors=10, lots=[t() for _ in range(20)], loss=t(), w=t())
    assert {"loss", "w"} <= {name for name, _ in found.tensors}
    assert len(found.tensors) == 10
    assert "more than 10" in found.cut


def test_a_model_larger_than_the_bound_leaves_room_for_variables():
    model = nn.Sequential(*[nn.Linear(1, 1) for _ in range(20)])
    found = find(max_tensors=10, model=model, loss=t())
    assert "loss" in {name for name, _ in found.tensors}
    assert found.cut


def test_exactly_as_many_tensors_as_the_bound_is_no_cut():
    found = find(max_tensors=10, lots=[t() for _ in range(10)])
    assert (len(found.tensors), found.cut) == (10, "")


def test_time_is_bounded_and_that_is_said():
    found = find(seconds=-1.0, lots=[[n, t()] for n in range(100)])
    assert "took too long" in found.cut


def test_a_container_that_another_thread_fills_is_searched_without_harm():
    shared = {n: t() for n in range(50)}
    objects = Plain(t())
    stop = threading.Event()

    def fill():
        n = 0
        while not stop.is_set():
            n += 1
            shared[n % 300] = n
            shared.pop((n * 7) % 300, None)
            setattr(objects, f"a{n % 50}", n)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        for _ in range(200):
            assert find(shared=shared, objects=objects).tensors
    finally:
        stop.set()
        thread.join()


# Odd tensors.


EXPECTED = {
    "lazy": (None, "float32", "cpu", 0),
    "lazy_buffer": (None, "float32", "cpu", 0),
    "meta": ((2,), "float32", "meta", 0),
    "fake": ((3,), "float32", "cpu", 0),
    "sparse": ((2, 2), "float32", "cpu", 0),
    "csr": ((2, 2), "float32", "cpu", 0),
    "quantized": ((2,), "qint8", "cpu", 0),
    "nested": (None, "float32", "cpu", 0),
    "jagged": (None, "float32", "cpu", 0),
    "complex": ((2,), "complex64", "cpu", 0),
    "inference": ((2,), "float32", "cpu", None),
    "functorch": ((), "float32", "cpu", 0),
    "scalar": ((), "float32", "cpu", 0),
    "empty": ((0, 3), "float32", "cpu", 0),
}


def odd_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    with torch.inference_mode():
        inference = torch.ones(2)
    seen = []
    torch.func.vmap(torch.func.grad(lambda x: (seen.append(x), x.sin())[1]))(torch.ones(3))
    return {
        "lazy": nn.LazyLinear(2).weight,
        "lazy_buffer": nn.LazyBatchNorm1d().running_mean,
        "meta": torch.ones(2, device="meta"),
        "fake": fake,
        "sparse": torch.eye(2).to_sparse(),
        "csr": torch.eye(2).to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "jagged": torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
        "complex": torch.ones(2, dtype=torch.complex64),
        "inference": inference,
        "functorch": seen[0],
        "scalar": torch.tensor(1.0),
        "empty": torch.empty(0, 3),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("which", EXPECTED)
def test_odd_tensors_are_found_and_described(which):
    tensor = odd_tensors()[which]
    assert names(x=tensor, more=[tensor]) == ["x"]
    state = state_of(tensor)
    assert (state.shape, state.dtype, state.device, state.version) == EXPECTED[which]


def test_subclasses_of_tensor_and_parameter_are_tensors():
    class Mine(torch.Tensor):
        pass

    tensor = torch.ones(2).as_subclass(Mine)
    assert names(x=tensor, b=nn.Buffer(t()), p=nn.Parameter(t())) == ["x", "b", "p"]
    assert state_of(tensor).shape == (2,)
    assert state_of(nn.Parameter(t())).is_parameter
