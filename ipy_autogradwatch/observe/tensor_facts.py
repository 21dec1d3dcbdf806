"""Read off a tensor what a rule may want to know, without changing it.

Metadata only. Nothing here touches elements, so it neither waits for a device nor records
an operation. Python code of tensor subclasses is not asked: `metadata_only` keeps
``__torch_function__`` out, `_Shield` keeps ``__torch_dispatch__`` out, and attributes are
read from ``torch._C.TensorBase``, below any property that a subclass puts over them (a
lazy parameter's ``shape`` raises).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.model import TensorFacts
from ipy_autogradwatch.observe.kinds import defines, instance_attribute, name_of_class

_BASE: Any = torch._C.TensorBase
_shape, _dtype, _device = _BASE.shape.__get__, _BASE.dtype.__get__, _BASE.device.__get__
_requires_grad, _is_leaf = _BASE.requires_grad.__get__, _BASE.is_leaf.__get__
_grad_fn, _version, _grad = _BASE.grad_fn.__get__, _BASE._version.__get__, _BASE.grad.__get__
_retains_grad = _BASE.retains_grad.__get__

_LAZY: Any = torch.nn.parameter.UninitializedTensorMixin  # type: ignore[attr-defined]

Key = tuple[Any, ...]
"""Shape, dtype, device, requires_grad, is_leaf, version, storage, name of the grad_fn, and
whether it is a Parameter: raw values, so that they are quick to read and compare."""
Reading = tuple[Key, torch.Tensor | None, int | None]
"""The key of a tensor, its gradient, and the version of that."""


@contextmanager
def metadata_only() -> Iterator[None]:
    """Keep ``__torch_function__`` of modes and subclasses out of what we read."""
    with torch._C.DisableTorchFunction():
        yield


class _Shield(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to answer, before a subclass or another mode is asked.

    Some subclasses answer for their own shape and device in ``__torch_dispatch__``.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, *_: object) -> Any:
        raise NotImplementedError


def is_ordinary(tensor: torch.Tensor) -> bool:
    """Whether *tensor* is of a class of torch's that answers without Python code."""
    kind = type(tensor)
    return kind is torch.Tensor or kind is torch.nn.Parameter


def tensor_facts(tensor: torch.Tensor) -> TensorFacts:
    """Describe *tensor* as it is now."""
    if is_ordinary(tensor) or not defines(type(tensor), "__torch_dispatch__", torch.Tensor):
        return _facts(tensor)
    with _Shield():
        return _facts(tensor)


def _facts(tensor: torch.Tensor) -> TensorFacts:
    leaf = is_leaf(tensor)
    return TensorFacts(
        shape=shape(tensor),
        dtype=dtype_name(tensor),
        device=device_name(tensor),
        requires_grad=requires_grad(tensor),
        is_leaf=leaf,
        grad_fn=None if leaf else grad_fn_name(tensor),
        version=version(tensor),
        subclass=None if is_ordinary(tensor) else name_of_class(type(tensor)),
    )


def read_all(tensors: Sequence[torch.Tensor]) -> list[Reading]:
    """Read what `snapshot` compares of each of *tensors*."""
    readings: list[Reading] = []
    with ExitStack() as shields:
        shielded = False
        while len(readings) < len(tensors):
            attempt(lambda: _read_ordinary(tensors, readings), None)
            if len(readings) < len(tensors):
                tensor = tensors[len(readings)]
                if not shielded and defines(type(tensor), "__torch_dispatch__", torch.Tensor):
                    shields.enter_context(_Shield())
                    shielded = True
                readings.append(_read_odd(tensor))
    return readings


def _read_ordinary(tensors: Sequence[torch.Tensor], readings: list[Reading]) -> None:
    """Go on with *readings*, up to a tensor that is not ordinary or refuses an answer."""
    plain, parameter = torch.Tensor, torch.nn.Parameter
    for index in range(len(readings), len(tensors)):
        tensor = tensors[index]
        kind = type(tensor)
        if kind is not plain and kind is not parameter:
            return
        leaf = tensor.is_leaf
        gradient = tensor.grad if leaf or tensor.retains_grad else None
        key = (
            tensor.shape,
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            leaf,
            tensor._version,
            _storage(tensor),
            None if leaf else node_name(tensor.grad_fn),
            kind is parameter,
        )
        if gradient is None:
            readings.append((key, None, None))
        elif type(gradient) is plain:
            readings.append((key, gradient, gradient._version))
        else:
            readings.append((key, gradient, version(gradient)))


def _read_odd(tensor: torch.Tensor) -> Reading:
    facts = _facts(tensor)
    gradient = grad(tensor)
    key = (
        facts.shape,
        facts.dtype,
        facts.device,
        facts.requires_grad,
        facts.is_leaf,
        facts.version,
        None,
        facts.grad_fn,
        issubclass(type(tensor), torch.nn.Parameter),
    )
    return key, gradient, None if gradient is None else version(gradient)


def _storage_slowly(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


# Private, and half as long: the same address without an object for the storage.
_storage: Any = getattr(torch._C, "_storage_address", _storage_slowly)


@lru_cache(maxsize=256)
def name_of_dtype_or_device(value: object) -> str:
    """Return a dtype or device as PyTorch prints it, without the ``torch.``."""
    return str(value).removeprefix("torch.")


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether *tensor* is a parameter that has no shape yet."""
    return issubclass(type(tensor), _LAZY)


def shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the shape, or None for a lazy parameter and what else has none."""
    if is_lazy(tensor):
        return None
    return attempt(lambda: plain_shape(_shape(tensor)), None)


def plain_shape(sizes: Any) -> tuple[int, ...]:
    """Return *sizes* as ints."""
    # A symbolic size (torch.export, dynamic shapes) is no int, and asking it adds a guard.
    return tuple([size if type(size) is int else -1 for size in sizes])


def dtype_name(tensor: torch.Tensor) -> str:
    """Return ``float32`` and the like."""
    return attempt(lambda: name_of_dtype_or_device(_dtype(tensor)), "?")


def device_name(tensor: torch.Tensor) -> str:
    """Return ``cpu``, ``cuda:0`` and the like."""
    device: object = attempt(lambda: _device(tensor), None)
    if device is None:  # A FakeTensor answers by `__torch_dispatch__`, and has it here.
        names = ("_fake_device", "fake_device")
        device = next(filter(None, (instance_attribute(tensor, n) for n in names)), None)
    return name_of_dtype_or_device(device) if type(device) is torch.device else "?"


def requires_grad(tensor: torch.Tensor) -> bool:
    """Return ``requires_grad``."""
    return attempt(lambda: bool(_requires_grad(tensor)), False)


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
    return None if node is None else attempt(lambda: node_name(node), "?")


def node_name(node: Any) -> str:
    """Return the name of a node of the graph, as in ``<MulBackward0 object>``."""
    # Not node.name(): a custom Function is free to set ctx.name.
    name = type(node).__name__
    return str(node.name()) if name == "CppFunction" else name


def version(tensor: torch.Tensor) -> int | None:
    """Return the version counter, or None for an inference tensor, which has none."""
    return attempt(lambda: int(_version(tensor)), None)


def grad(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return ``.grad``, without the warning that a non-leaf gives."""
    found: torch.Tensor | None = attempt(lambda: _quiet_grad(tensor), None)
    return found


def _quiet_grad(tensor: torch.Tensor) -> Any:
    return _grad(tensor) if _is_leaf(tensor) or _retains_grad(tensor) else None
