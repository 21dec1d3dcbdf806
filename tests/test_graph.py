"""A walk finds the leaves that backward would reach, each node once, within its time."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from ipy_autogradwatch.observe.graph import NOWHERE, WalkBudget, Walker, sequence_nr
from ipy_autogradwatch.observe.identity import Identities


def reach(*roots, seconds=5.0):
    """Return the `Reach` of tensors, and the identities that name its leaves."""
    identities = Identities()
    return Walker(identities, WalkBudget(seconds)).reach([r.grad_fn for r in roots]), identities


def leaves_of(root, **leaves):
    """Return which of the named *leaves* a walk from *root* finds."""
    found, identities = reach(root)
    assert not found.cut
    return {name for name, leaf in leaves.items() if identities.number(leaf) in found.leaves}


def leaf():
    return torch.ones(2, requires_grad=True)


def test_a_result_reaches_the_leaves_it_was_computed_from():
    a, b, c = leaf(), leaf(), leaf()
    assert leaves_of(a * b, a=a, b=b, c=c) == {"a", "b"}


def test_what_requires_no_grad_is_not_reached():
    a, b = leaf(), torch.ones(2)
    assert leaves_of(a * b, a=a, b=b) == {"a"}


def test_detach_cuts():
    a, b = leaf(), leaf()
    assert leaves_of(a.detach() * b, a=a, b=b) == {"b"}


def test_several_roots_are_one_walk():
    a, b = leaf(), leaf()
    found, _ = reach(a * 2, b * 2)
    assert len(found.leaves) == 2


def test_a_tensor_without_graph_reaches_nothing():
    assert Walker(Identities(), WalkBudget(1.0)).reach([None]) == NOWHERE


def test_a_graph_that_backward_has_freed_is_walked_all_the_same():
    a = leaf()
    y = (a * a).sum()
    y.backward()
    assert leaves_of(y, a=a) == {"a"}


def test_create_graph_connects_the_gradient():
    a = leaf()
    (g,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
    assert leaves_of(g, a=a) == {"a"}


def test_a_checkpointed_part_is_walked_through():
    a, b = leaf(), leaf()
    y = checkpoint(lambda x: (x * b).sin(), a, use_reentrant=False)
    assert leaves_of(y, a=a, b=b) == {"a", "b"}


def test_a_custom_function_is_walked_through():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    a = leaf()
    assert leaves_of(Double.apply(a).sum(), a=a) == {"a"}


def test_views_and_writes_in_place_are_walked_through():
    a, b = leaf(), leaf()
    base = a * 1
    base[0] = b[1]
    assert leaves_of(base.view(1, 2).t(), a=a, b=b) == {"a", "b"}


def test_a_diamond_is_walked_once():
    y = x = leaf()
    for _ in range(40):
        y = y + y  # 2**40 paths.
    found, _ = reach(y)
    assert found.nodes == 41
    assert len(found.leaves) == 1
    del x


def test_a_root_on_the_graph_of_an_earlier_one_costs_no_second_walk():
    a, b = leaf(), leaf()
    h = a
    for _ in range(100):
        h = h * 2
    loss = (h * b).sum()
    walker = Walker(Identities(), WalkBudget(5.0))
    walker.reach([h.grad_fn])
    found = walker.reach([loss.grad_fn])
    assert found.nodes < 10
    assert len(found.leaves) == 2


def test_a_walk_without_time_is_cut_and_says_so():
    a = leaf()
    found, _ = reach(a * 2, seconds=0.0)
    assert found.cut
    assert found.is_empty_handed


def test_all_walks_of_a_cell_share_one_budget():
    x = leaf()
    y = x
    for _ in range(5000):
        y = y + 1
    budget = WalkBudget(0.001)
    walker = Walker(Identities(), budget)
    assert walker.reach([y.grad_fn]).cut
    assert budget.seconds <= 0
    assert walker.reach([(x * 2).grad_fn]).cut


def test_a_walk_keeps_no_node_and_no_tensor_alive():
    a = leaf()
    y = (a * a).sum()
    node = weakref.ref(y)
    walker = Walker(Identities(), WalkBudget(5.0))
    found = walker.reach([y.grad_fn])
    del walker, y
    gc.collect()
    assert node() is None
    assert all(type(number) is int for number in found.leaves)


def test_nodes_are_numbered_in_the_order_they_are_made():
    a = leaf()
    first = a * 2
    second = first * 2
    assert sequence_nr(first.grad_fn) < sequence_nr(second.grad_fn)
    assert sequence_nr(None) == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=25))
def test_a_walk_finds_exactly_the_leaves_that_backward_reaches(program):
    leaves = [torch.ones(1, requires_grad=True) for _ in range(4)]
    values = list(leaves)
    for left, right, cut in program:
        made = values[left % len(values)] * 1 + values[right % len(values)] * 1
        values.append(made.detach() if cut and left % 3 == 0 else made)
    root = values[-1]
    if root.grad_fn is None:
        return
    found, identities = reach(root)
    root.backward()
    reached = {identities.number(each) for each in leaves if each.grad is not None}
    assert set(found.leaves) == reached


# Numbers of tensor objects.


def test_a_tensor_keeps_its_number_and_no_two_share_one():
    identities = Identities()
    tensors = [torch.ones(1) for _ in range(100)]
    numbers = [identities.number(each) for each in tensors]
    assert len({*numbers}) == 100
    assert numbers == [identities.number(each) for each in tensors]


def test_a_new_tensor_at_an_old_address_has_a_new_number():
    identities = Identities()
    seen = {}
    for _ in range(200):
        tensor = torch.ones(1)
        number = identities.number(tensor)
        assert number not in seen.values()
        seen[id(tensor)] = number
        del tensor
    assert len(seen) < 200, "no address came back: nothing was tested"


def test_numbers_keep_nothing_alive():
    identities = Identities()
    tensor = torch.ones(1)
    identities.number(tensor)
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None


@pytest.mark.parametrize("with_makers", [False, True])
def test_what_is_remembered_of_dead_tensors_is_swept(with_makers):
    identities = Identities()
    for n in range(20_000):
        tensor = torch.empty(0)
        if with_makers:
            identities.note_maker(tensor, 1, n)
        identities.number(tensor)
        del tensor
    assert len(identities._entries) < 5000
    assert len(identities._makers) < 5000


def test_the_first_line_that_made_a_leaf_is_the_one_kept():
    identities = Identities()
    w = torch.ones(1)
    identities.note_maker(w, 1, 2)
    identities.note_maker(w, 3, 4)
    assert identities.maker(identities.number(w)) == (1, 2)
