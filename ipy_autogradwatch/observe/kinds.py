"""What kind of object is this, and what may be read of it without running its code?

A class is told by its address: hashing it or comparing it would run its metaclass.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Any, Final

import torch

from ipy_autogradwatch.fence import attempt

NOTHING: Final = 0
"""It holds no tensor, or nobody's business."""
TENSOR: Final = 1
MODULE: Final = 2
OPTIMIZER: Final = 3
SEQUENCE: Final = 4
DICT: Final = 5
OBJECT: Final = 6

_mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_class_dict: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__

_class_name: Callable[[type], str] = type.__dict__["__name__"].__get__

_PLAIN_TYPES: tuple[type, ...] = (
    *(str, bytes, bytearray, int, float, complex, bool, type(None), type, range, slice),
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    *(types.GeneratorType, types.CoroutineType, types.CodeType, types.FrameType),
    *(torch.dtype, torch.device, torch.Size, torch.Generator),
)
# What is in objects of these packages is theirs. A figure alone has ten thousand objects.
_FOREIGN = frozenset(
    [
        "IPython",
        "ipykernel",
        "traitlets",
        "rich",
        "numpy",
        "pandas",
        "matplotlib",
        "scipy",
        "sklearn",
        "seaborn",
        "plotly",
        "PIL",
        "bokeh",
        "altair",
        "tqdm",
        "ipywidgets",
        "tensorboard",
        "wandb",
        "zmq",
        "tornado",
        "jupyter_client",
        "pytest",
        "cv2",
        "jax",
        "tensorflow",
        "polars",
        "pyarrow",
        "networkx",
        "sympy",
        "builtins",
    ]
)
# Of the standard library: argparse.Namespace, UserDict and UserList.
_OURS_TO_READ = frozenset(["__main__", "argparse", "collections"])
_INDEXABLE = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ParameterList)
_KEYED = (torch.nn.ModuleDict, torch.nn.ParameterDict)


@dataclass(slots=True)
class Kind:
    """What there is to know of one class.

    Attributes:
        role: ``NOTHING``, ``TENSOR``, ``MODULE`` and so on.
        type: The class; kept, so that its address stays its own.
        has_dict: Its objects have an instance dict, in the ordinary place.
        slots: Names and descriptors of its slots.
        fields: Of a namedtuple.
        is_tuple: It is `tuple` itself.
        base: The builtin class whose methods read a sequence.
        takes_index, takes_key: A registered ``0`` is ``net[0]``; ``head`` is ``net["head"]``.
    """

    role: int
    type: type
    has_dict: bool = False
    slots: tuple[tuple[str, Any], ...] = ()
    fields: tuple[object, ...] = ()
    is_tuple: bool = False
    base: Any = None
    takes_index: bool = False
    takes_key: bool = False


PLAIN: Final = Kind(NOTHING, object)
"""The one kind of everything that holds nothing."""
_PLAIN_KINDS = dict.fromkeys(map(id, _PLAIN_TYPES), PLAIN)


class Kinds:
    """The kinds of the classes that one search meets.

    Attributes:
        known: Address of a class to its kind.
    """

    def __init__(self) -> None:
        self.known: dict[int, Kind] = dict(_PLAIN_KINDS)
        self._kept: list[type] = []

    def of(self, value: object) -> Kind:
        """Return the kind of *value*."""
        kind = type(value)
        return self.known.get(id(kind)) or self.classify(kind)

    def classify(self, kind: type) -> Kind:
        """Return the kind of the class *kind*, met for the first time."""
        self._kept.append(kind)
        self.known[id(kind)] = found = _kind(kind)
        return found


def _kind(kind: type) -> Kind:
    # issubclass asks only our second argument, which is never a class of theirs.
    if issubclass(kind, torch.Tensor):
        return Kind(TENSOR, kind)
    if issubclass(kind, torch.nn.Module):
        indexed = issubclass(kind, _INDEXABLE) or defines(kind, "__getitem__")
        keyed = issubclass(kind, _KEYED)
        has_dict = _has_dict(kind)
        return Kind(MODULE, kind, has_dict, takes_index=indexed and not keyed, takes_key=keyed)
    if issubclass(kind, torch.optim.Optimizer):
        return Kind(OPTIMIZER, kind, _has_dict(kind))
    for base in (list, tuple, deque):
        if issubclass(kind, base):
            fields = _fields(kind) if base is tuple else ()
            return Kind(SEQUENCE, kind, base=base, fields=fields, is_tuple=kind is tuple)
    if issubclass(kind, dict):
        return Kind(DICT, kind)
    if _may_look_into(kind):
        has_dict, slots = _has_dict(kind), tuple(_slots(kind))
        if has_dict or slots:
            return Kind(OBJECT, kind, has_dict, slots)
    return PLAIN


def _may_look_into(kind: type) -> bool:
    if issubclass(kind, (types.ModuleType, type)):
        return False
    module = _class_dict(kind).get("__module__")
    if kind is types.SimpleNamespace:
        return True
    if type(module) is not str:
        return False
    package = module.partition(".")[0]
    if package in _FOREIGN:
        return False
    return package in _OURS_TO_READ or package not in sys.stdlib_module_names


def defines(kind: type, name: str, above: type = object) -> bool:
    """Whether *kind* or a base of it, up to and without *above*, defines *name* itself."""
    for base in _mro(kind):
        if base is above:
            return False
        if name in _class_dict(base):
            return True
    return False


def name_of_class(kind: type) -> str:
    """Return ``__name__``, whatever its metaclass makes of that."""
    return str(_class_name(kind))


def _has_dict(kind: type) -> bool:
    """Whether objects of *kind* have a ``__dict__``, and no class of theirs redefines it."""
    found = [_class_dict(b)["__dict__"] for b in _mro(kind) if "__dict__" in _class_dict(b)]
    return bool(found) and all(
        type(member) is types.GetSetDescriptorType or type(member) is types.MemberDescriptorType
        for member in found
    )


def _slots(kind: type) -> Iterator[tuple[str, Any]]:
    hidden: set[str] = set()  # By a property of a class further down.
    for base in _mro(kind):
        for name, member in list(_class_dict(base).items()):
            if type(name) is str and name not in hidden:
                hidden.add(name)
                # A slot is read by C code. All else in a class may be code of theirs.
                if type(member) is types.MemberDescriptorType and name[:2] != "__":
                    yield name, member


def _fields(kind: type) -> tuple[object, ...]:
    for base in _mro(kind):
        found = _class_dict(base).get("_fields")
        if found is not None:
            return found if type(found) is tuple else ()
    # A tuple made in C, like what ``x.max(0)`` returns: its fields are members.
    return tuple(name for name, _ in _slots(kind))


def instance_dict(value: object, kind: Kind) -> Any:
    """Return the instance dict of *value*, a dict or of a class derived from it."""
    if not kind.has_dict:
        return {}
    try:
        found: Any = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if issubclass(type(found), dict) else {}


def instance_attribute(value: object, name: str) -> object:
    """Return what *value* has under *name* in its instance dict, or None."""
    kind = Kind(OBJECT, type(value), _has_dict(type(value)))
    return dict.get(instance_dict(value, kind), name)


def slot_items(value: object, kind: Kind) -> Iterable[tuple[str, object]]:
    """Yield name and value of each slot that is filled."""
    for name, member in kind.slots:
        held = attempt(lambda m=member: m.__get__(value), None)  # type: ignore[misc]
        if held is not None:
            yield name, held


_MODULE_KEYS = tuple(vars(torch.nn.Module()))
"""What every module has in its instance dict before its own attributes."""
_HOLDERS = ("_parameters", "_buffers", "_modules")


def _begins_as_usual(attributes: Any) -> bool:
    # By identity: these strings are interned, and an odd key is not asked to compare itself.
    try:
        return all(map(is_, dict.__iter__(attributes), _MODULE_KEYS))
    except RuntimeError:  # Another thread is writing it.
        return False


def registered(attributes: Any) -> tuple[list[Any], int]:
    """Return the dicts in which a module keeps what was registered, those that are not empty.

    And how many of its *attributes* are torch's own: 18 hooks and flags of each module in
    a model add up.
    """
    first = len(_MODULE_KEYS)
    if dict.__len__(attributes) >= first and _begins_as_usual(attributes):
        get = dict.get
        found: list[Any] = [get(attributes, name) for name in _HOLDERS]
    else:
        items = attempt(lambda: list(dict.items(attributes)), [])
        held = {key: value for key, value in items if type(key) is str and key in _HOLDERS}
        found = [held[name] for name in _HOLDERS if name in held]
        first = 0
    return [d for d in found if issubclass(type(d), dict) and dict.__len__(d)], first
