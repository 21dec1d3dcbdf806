"""Find the tensors of a namespace, by the names a user would type.

Objects of the user's are not trusted: no attribute is asked for in the ordinary way, no
``__iter__``, ``__len__``, ``__eq__``, ``__class__`` or property of theirs is run. What an
object holds is read from its instance dict and slots, what a list or dict holds by the
methods of the builtin types themselves, and what kind of object it is from ``type()``.
"""

from __future__ import annotations

import sys
import time
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ipy_autogradwatch.fence import attempt

MAX_DEPTH = 8
MAX_ITEMS = 1000
"""Of one list, tuple or dict."""

_mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_class_dict: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__

# A dict, not a tuple or set: `in` then compares classes by identity first, and hashes by
# address; a metaclass with an `__eq__` of its own is not among the keys.
_ATOMS = dict.fromkeys(
    (
        *(str, bytes, bytearray, int, float, complex, bool, type(None), type, range, slice),
        *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
        *(types.GeneratorType, types.CoroutineType, types.CodeType, types.FrameType),
        *(torch.dtype, torch.device, torch.Size, torch.Generator),
    )
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


@dataclass(frozen=True, slots=True)
class Found:
    """The tensors of a namespace, while somebody looks at them. Not to be kept.

    Attributes:
        tensors: Best name and tensor, in the order of the namespace; each object once.
        also: Other names of the object that `tensors` has under a name.
        cut: Why some may be missing, or an empty string.
    """

    tensors: list[tuple[str, torch.Tensor]]
    also: dict[str, list[str]]
    cut: str


def find_tensors(
    namespace: Mapping[str, object], *, hidden: frozenset[str], max_tensors: int, seconds: float
) -> Found:
    """Return the tensors that can be reached from *namespace*.

    Breadth first: variables before what is in them, so that a cut loses the deepest, and
    a tensor goes by its shortest name.

    Args:
        namespace: Names and values.
        hidden: Names that are the shell's own.
        max_tensors: Stop after this many.
        seconds: Stop after this long.
    """
    search = _Search(max_tensors, time.perf_counter() + seconds)
    for name, value in list(namespace.items()):
        if not (name in hidden or _is_shell_name(name)):
            search.meet(name, value, 0)
    search.run()
    return Found(search.tensors, search.also, search.cut)


def _is_shell_name(name: str) -> bool:
    """``_``, ``__``, ``_3``, ``_i3``, ``_ih`` and dunders: IPython's, not the user's."""
    if not name.startswith("_"):
        return name in ("In", "Out", "exit", "quit", "get_ipython", "open")
    rest = name.lstrip("_")
    return (
        not rest
        or rest.isdigit()
        or name in ("_ih", "_oh", "_dh", "_ii", "_iii", "_i")
        or (rest[:1] == "i" and rest[1:].isdigit())
        or name.endswith("__")
    )


class _Search:
    def __init__(self, max_tensors: int, deadline: float) -> None:
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.also: dict[str, list[str]] = {}
        self.cut = ""
        self._name_of: dict[int, str] = {}
        self._queue: deque[tuple[str, object, int]] = deque()
        self._seen: dict[int, object] = {}
        self._max_tensors = max_tensors
        self._deadline = deadline

    def meet(self, name: str, value: object, depth: int) -> None:
        """Take note of a tensor, queue what may hold tensors, pass over the rest."""
        kind = type(value)
        if kind in _ATOMS:
            return
        if issubclass(kind, torch.Tensor):
            known = self._name_of.get(id(value))
            if known is not None:
                names = self.also.setdefault(known, [])
                if len(names) < 4:
                    names.append(name)
            elif len(self.tensors) < self._max_tensors:
                self._name_of[id(value)] = name
                self.tensors.append((name, value))  # type: ignore[arg-type]
            else:
                self._cut(f"more than {self._max_tensors} tensors")
        elif kind is tuple and len(value) <= 4 and all(type(v) in _ATOMS for v in value):  # type: ignore[arg-type, attr-defined]
            pass  # ``kernel_size=(3, 3)``: a model is full of them.
        elif depth < MAX_DEPTH and id(value) not in self._seen:
            # Kept while the search runs, so that no id comes back as another object's.
            self._seen[id(value)] = value
            self._queue.append((name, value, depth + 1))

    def _cut(self, reason: str) -> None:
        if not self.cut:
            self.cut = reason

    def run(self) -> None:
        """Search until everything was met, or a bound is reached."""
        meet, queue = self.meet, self._queue
        while queue and not self.cut:
            name, value, depth = queue.popleft()
            for suffix, item in _items(value):
                if type(item) not in _ATOMS:
                    meet(name + suffix, item, depth)
            if time.perf_counter() > self._deadline:
                self._cut("the search took too long")


def _items(value: object) -> Iterator[tuple[str, object]]:
    """Yield what *value* holds, with what a user would type after its name to get it."""
    kind = type(value)
    if issubclass(kind, torch.nn.Module):
        yield from _module_items(value)
    elif issubclass(kind, torch.optim.Optimizer):
        groups = _instance_dict(value).get("param_groups")
        if type(groups) is list:
            yield ".param_groups", groups
    elif issubclass(kind, (list, tuple, deque)):
        yield from _sequence_items(value, kind)
    elif issubclass(kind, dict):
        yield from _dict_items(value)
    elif _may_look_into(kind):
        for name, item in _attributes(value, kind):
            if not name.startswith("__"):
                yield f".{name}", item


def _sequence_items(value: Any, kind: type) -> Iterator[tuple[str, object]]:
    fields = _class_dict(kind).get("_fields") if issubclass(kind, tuple) else None
    iterate = next(base.__iter__ for base in (list, tuple, deque) if issubclass(kind, base))
    names: tuple[object, ...] = fields if type(fields) is tuple else ()
    for index, item in enumerate(iterate(value)):
        if index >= MAX_ITEMS:
            return
        name = names[index] if index < len(names) else None
        yield (f".{name}" if type(name) is str else f"[{index}]"), item


def _dict_items(value: Any) -> Iterator[tuple[str, object]]:
    # A copy in one step: another thread may be filling it.
    items = list(dict.items(value)) if dict.__len__(value) <= MAX_ITEMS else _first(value)
    for key, item in items:
        if type(key) is str and len(key) <= 60:
            yield f'["{key}"]' if '"' not in key else f"[{key!r}]", item
        elif type(key) in (int, bool, float) or _is_plain_tuple(key):
            yield f"[{key!r}]", item
        else:
            yield "[...]", item


def _first(value: Any) -> list[tuple[object, object]]:
    taken: list[tuple[object, object]] = []
    for item in dict.items(value):
        if len(taken) >= MAX_ITEMS:
            break
        taken.append(item)
    return taken


def _is_plain_tuple(key: object) -> bool:
    return type(key) is tuple and len(key) <= 4 and all(type(k) in (int, str) for k in key)


def _module_items(module: object) -> Iterator[tuple[str, object]]:
    attributes = _instance_dict(module)
    in_brackets = issubclass(type(module), (torch.nn.ModuleDict, torch.nn.ParameterDict))
    for holder in ("_parameters", "_buffers", "_modules"):
        held = attributes.get(holder)
        if type(held) is dict or type(held) is OrderedDict:
            yield from _registered(held, in_brackets)
    for name, value in list(attributes.items()):
        if type(value) not in _ATOMS and type(name) is str and name[:1] != "_":
            yield f".{name}", value


def _registered(held: Any, in_brackets: bool) -> Iterator[tuple[str, object]]:
    """What a module has registered: ``net.fc``, ``net[0]``, ``net["head"]``."""
    for name, item in list(dict.items(held)):
        if item is None or type(name) is not str:
            continue
        if name.isdigit():
            yield f"[{name}]", item
        elif in_brackets or not name.isidentifier():
            yield f'["{name}"]', item
        else:
            yield f".{name}", item


def _may_look_into(kind: type) -> bool:
    if issubclass(kind, (types.ModuleType, type)):
        return False
    module = _class_dict(kind).get("__module__")
    if type(module) is not str:
        return False
    package = module.partition(".")[0]
    return package == "__main__" or not (package in _FOREIGN or package in sys.stdlib_module_names)


def _instance_dict(value: object) -> dict[str, object]:
    """Return the ``__dict__`` of *value* unless its class has put something else there."""
    for base in _mro(type(value)):
        descriptor = _class_dict(base).get("__dict__")
        if descriptor is not None and type(descriptor) is not types.GetSetDescriptorType:
            return {}
    return attempt(lambda: _own_dict(value), {})


def _own_dict(value: object) -> dict[str, object]:
    found = object.__getattribute__(value, "__dict__")
    return found if type(found) is dict else {}


def _attributes(value: object, kind: type) -> Iterator[tuple[str, object]]:
    yield from [(n, v) for n, v in list(_instance_dict(value).items()) if type(n) is str]
    for base in _mro(kind):
        for name, member in list(_class_dict(base).items()):
            # A slot is read by C code. Everything else in a class may be code of theirs.
            if type(member) is types.MemberDescriptorType and type(name) is str:
                held = attempt(lambda m=member: m.__get__(value), None)  # type: ignore[misc]
                if held is not None:
                    yield name, held
