"""Read off a tensor what a rule may want to know, without changing it.

Metadata only. Nothing here touches elements, so it neither waits for a device nor records
an operation. Python code of tensor subclasses is not asked: `metadata_only` keeps
``__torch_function__`` out, and attributes are read from ``torch._C.TensorBase``, below
any property that a subclass puts over them (a lazy parameter's ``shape`` raises).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.model import TensorFacts

_BASE: Any = torch._C.TensorBase
_shape, _dtype, _device = _BASE.shape.__get__, _BASE.dtype.__get__, _BASE.device.__get__
_requires_grad, _is_leaf = _BASE.requires_grad.__get__, _BASE.is_leaf.__get__
_grad_fn, _version, _grad = _BASE.grad_fn.__get__, _BASE._version.__get__, _BASE.grad.__get__
_retains_grad = _BASE.retains_grad.__get__

_ORDINARY = (torch.Tensor, torch.nn.Parameter)
_LAZY: Any = torch.nn.parameter.UninitializedTensorMixin  # type: ignore[attr-defined]


@contextmanager
def metadata_only() -> Iterator[None]:
    """Keep ``__torch_function__`` of modes and subclasses out of what we read."""
    with torch._C.DisableTorchFunction():
        yield


def tensor_facts(tensor: torch.Tensor) -> TensorFacts:
    """Describe *tensor* as it is now."""
    leaf = is_leaf(tensor)
    kind = type(tensor)
    return TensorFacts(
        shape=shape(tensor),
        dtype=dtype_name(tensor),
        device=device_name(tensor),
        requires_grad=attempt(lambda: bool(_requires_grad(tensor)), False),
        is_leaf=leaf,
        grad_fn=None if leaf else grad_fn_name(tensor),
        version=version(tensor),
        subclass=None if kind in _ORDINARY else str(type.__getattribute__(kind, "__name__")),
    )


def quick_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what `snapshot` compares: raw values, in the order that it unpacks.

    Shape, dtype, device, requires_grad, is_leaf, version, storage, name of the grad_fn, and
    whether it is a Parameter.
    """
    kind = type(tensor)
    if kind in _ORDINARY:
        key = attempt(lambda: _ordinary_key(tensor, kind), None)
        if key is not None:
            return key
    facts = tensor_facts(tensor)
    return (
        facts.shape,
        facts.dtype,
        facts.device,
        facts.requires_grad,
        facts.is_leaf,
        facts.version,
        None,
        facts.grad_fn,
        issubclass(kind, torch.nn.Parameter),
    )


def _ordinary_key(tensor: torch.Tensor, kind: type) -> tuple[Any, ...]:
    leaf = tensor.is_leaf
    return (
        tensor.shape,
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        leaf,
        tensor._version,
        tensor.untyped_storage()._cdata,
        None if leaf else tensor.grad_fn.name(),  # type: ignore[union-attr]
        kind is torch.nn.Parameter,
    )


def name_of(value: object) -> str:
    """Return a dtype or device as PyTorch prints it, without the ``torch.``."""
    return str(value).removeprefix("torch.")


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether *tensor* is a parameter that has no shape yet."""
    return issubclass(type(tensor), _LAZY)


def shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the shape, or None for a lazy parameter and what else has none."""
    if is_lazy(tensor):
        return None
    return attempt(lambda: tuple(map(_size, _shape(tensor))), None)


def _size(size: Any) -> int:
    # A symbolic size (torch.export, dynamic shapes) is no int, and asking it adds a guard.
    return size if type(size) is int else -1


def dtype_name(tensor: torch.Tensor) -> str:
    """Return ``float32`` and the like."""
    return attempt(lambda: name_of(_dtype(tensor)), "?")


def device_name(tensor: torch.Tensor) -> str:
    """Return ``cpu``, ``cuda:0`` and the like."""
    return attempt(lambda: name_of(_device(tensor)), "?")


def is_leaf(tensor: torch.Tensor) -> bool:
    """Return ``is_leaf``; a tensor that cannot say (a broken view) counts as none."""
    return attempt(lambda: bool(_is_leaf(tensor)), False)


def grad_fn(tensor: torch.Tensor) -> Any | None:
    """Return the node that computed *tensor*, or None. Do not keep it."""
    # Asking may raise: a view made under no_grad whose base was then written in place.
    return attempt(lambda: _grad_fn(tensor), None)


def grad_fn_name(tensor: torch.Tensor) -> str | None:
    """Return the name of the node that computed *tensor*, or None."""
    node = grad_fn(tensor)
    return None if node is None else attempt(lambda: str(node.name()), "?")


def version(tensor: torch.Tensor) -> int | None:
    """Return the version counter, or None for an inference tensor, which has none."""
    return attempt(lambda: int(_version(tensor)), None)


def grad(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return ``.grad``, without the warning that a non-leaf gives."""
    found: torch.Tensor | None = attempt(lambda: _quiet_grad(tensor), None)
    return found


def _quiet_grad(tensor: torch.Tensor) -> Any:
    return _grad(tensor) if _is_leaf(tensor) or _retains_grad(tensor) else None
