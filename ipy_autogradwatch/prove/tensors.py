"""Where the elements of a tensor lie, and which tensors an operation was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ipy_autogradwatch.prove.aten import OpFacts
from ipy_autogradwatch.prove.tape import Home, View

_COMPLEX = frozenset([torch.complex32, torch.complex64, torch.complex128])


def view_of(tensor: torch.Tensor) -> View:
    """Return where the elements of *tensor* lie."""
    if tensor.layout is not torch.strided:
        return (("object", id(tensor)), 0, tuple(tensor.shape), (), tensor.dtype, False)
    dtype = tensor.dtype
    offset = tensor.storage_offset()
    address = tensor.data_ptr()
    home: Home = address - offset * dtype.itemsize if address else ("empty", id(tensor))
    flipped = tensor.is_conj() if dtype in _COMPLEX else tensor.is_neg()
    return (home, offset, tuple(tensor.shape), tensor.stride(), dtype, flipped)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of the memory of *tensor*, flat, as an alias."""
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.dtype.itemsize
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return flat.set_(storage, 0, (count,), (1,))


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether *tensor* has elements: one that is meta or fake has none."""
    return tensor.device.type != "meta" and type(tensor).__name__ not in (
        "FakeTensor",
        "FunctionalTensor",
    )


def is_true_leaf(tensor: torch.Tensor) -> bool:
    """Whether *tensor* is a leaf whose gradient autograd accumulates.

    A view of a leaf that was made under no_grad says that it is one; a view of data may be.
    """
    if not (tensor.requires_grad and tensor.is_leaf):
        return False
    return not (tensor._is_view() and tensor._base is not None and tensor._base.requires_grad)


def tensors_in(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    """Yield the tensors among arguments, and in lists among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from (item for item in value if isinstance(item, torch.Tensor))


def flat_items(result: Any) -> Iterable[Any]:
    """Yield what an operation returned, one by one."""
    if isinstance(result, (list, tuple)):
        for item in result:
            yield from flat_items(item)
    else:
        yield result


def written_by(facts: OpFacts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operation writes into."""
    if not facts.written and not facts.written_keywords:
        return []
    found = [args[index] for index in facts.written if index < len(args)]
    found += [kwargs[name] for name in facts.written_keywords if name in kwargs]
    return list(tensors_in(found))


def all_leaves(written: list[torch.Tensor]) -> bool:
    """Whether only leaves that require grad are written, as an optimizer does."""
    return bool(written) and all(t.requires_grad and t.is_leaf for t in written)
