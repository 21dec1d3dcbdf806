"""Find the tensors of a namespace, by the names a user would type.

Objects of the user's are not trusted: no attribute is asked for in the ordinary way, no
``__iter__``, ``__len__``, ``__eq__``, ``__hash__``, ``__class__`` or property of theirs is
run. What an object holds is read from its instance dict and slots, what a list or dict
holds by the methods of the builtin types themselves, and what kind of object it is from
``type()`` (see ``kinds``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from ipy_autogradwatch.observe import kinds
from ipy_autogradwatch.observe.kinds import (
    PLAIN,
    Kind,
    Kinds,
    instance_dict,
    registered,
    slot_items,
)

MAX_DEPTH = 8
"""Steps from a variable; one into what a module has registered is none."""
MAX_ITEMS = 1000
"""Of one list, tuple, dict or object."""
_SAMPLE = 50
_LONGEST_KEY = 60
_MOST_OTHER_NAMES = 4

_SHELL_NAMES = frozenset(
    ["In", "Out", "exit", "quit", "get_ipython", "open", "_ih", "_oh", "_dh", "_i", "_ii", "_iii"]
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

    A tensor goes by its first name in this order: variables, and what the modules among
    them have registered, as they come; what is in other variables, nearest first; what an
    optimizer holds.

    Args:
        namespace: Names and values.
        hidden: Names that are the shell's own.
        max_tensors: Stop after this many.
        seconds: Stop after this long.
    """
    search = _Search(max_tensors, time.perf_counter() + seconds)
    search.variables(namespace, hidden)
    search.run()
    return Found(search.tensors, search.also, search.cut)


def _is_shell_name(name: str) -> bool:
    """``_``, ``__``, ``_3``, ``_i3``, ``_ih`` and dunders: IPython's, not the user's."""
    if name[:1] != "_":
        return name in _SHELL_NAMES
    rest = name.lstrip("_")
    return (
        not rest
        or rest.isdigit()
        or (rest[0] == "i" and rest[1:].isdigit())
        or name[-2:] == "__"
        or name in _SHELL_NAMES
    )


class _Search:
    """One search. What waits stands in three queues: modules go first, optimizers last."""

    def __init__(self, max_tensors: int, deadline: float) -> None:
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.also: dict[str, list[str]] = {}
        self.cut = ""
        self._stopped = False
        self._name_of: dict[int, str] = {}
        self._kinds = Kinds()
        # Kept while the search runs, so that no id comes back as another object's.
        self._seen: dict[int, object] = {}
        self._modules: deque[tuple[str, object, int, Kind]] = deque()
        self._others: deque[tuple[str, object, int, Kind]] = deque()
        self._optimizers: deque[tuple[str, object, int, Kind]] = deque()
        self._max_tensors = max_tensors
        self._deadline = deadline
        self._half_time = (deadline + time.perf_counter()) / 2

    def variables(self, namespace: Mapping[str, object], hidden: frozenset[str]) -> None:
        """Meet the variables, and at once what the modules among them have registered.

        A module that takes more than half of the bounds waits for the other variables.
        """
        of = self._kinds.of
        # Two lists instead of a list of pairs: ten thousand new pairs set off the collector.
        names: list[Any] = self._copy("the namespace", lambda: namespace)
        values = self._copy("the namespace", namespace.values)
        for count, (name, value) in enumerate(zip(names, values, strict=False)):
            kind = of(value)
            if kind is PLAIN or type(name) is not str or name in hidden or _is_shell_name(name):
                pass
            elif namespace.get(name) is value:
                self._meet(name, value, 1, kind)
                while self._modules and self._has_plenty():
                    self._read(self._modules.popleft())
            if count % 256 == 255:
                self._mind_the_time()
            if self._stopped:
                return

    def run(self) -> None:
        """Search until everything was met, or a bound is reached."""
        while not self._stopped:
            queue = self._modules or self._others or self._optimizers
            if not queue:
                return
            self._read(queue.popleft())
            self._mind_the_time()

    def _has_plenty(self) -> bool:
        return 2 * len(self.tensors) < self._max_tensors and time.perf_counter() < self._half_time

    def _mind_the_time(self) -> None:
        if time.perf_counter() > self._deadline:
            self._note_cut("the search took too long")
            self._stopped = True

    def _note_cut(self, reason: str) -> None:
        self.cut = self.cut or reason

    def _read(self, waiting: tuple[str, Any, int, Kind]) -> None:
        name, value, depth, kind = waiting
        if kind.role == kinds.MODULE:
            self._module(name, value, depth, kind)
            return
        of = self._kinds.of
        for item_name, item in self._held(name, value, kind):
            found = of(item)
            if found is not PLAIN:
                self._meet(item_name, item, depth, found)
                if self._stopped:
                    return

    def _meet(self, name: str, value: Any, depth: int, kind: Kind) -> None:
        """Take note of a tensor, and queue what may hold tensors."""
        role = kind.role
        if role == kinds.TENSOR:
            self._tensor(name, value, depth)
        elif id(value) in self._seen:
            pass
        elif role == kinds.MODULE:
            self._seen[id(value)] = value
            self._modules.append((name, value, depth, kind))
        elif depth <= MAX_DEPTH + 1 and not (kind.is_tuple and self._is_plain_tuple(value)):
            self._seen[id(value)] = value
            queue = self._optimizers if role == kinds.OPTIMIZER else self._others
            queue.append((name, value, depth + 1, kind))

    def _tensor(self, name: str, tensor: torch.Tensor, depth: int) -> None:
        known = self._name_of.get(id(tensor))
        if known is not None:
            names = self.also.setdefault(known, [])
            if len(names) < _MOST_OTHER_NAMES:
                names.append(name)
        elif depth > MAX_DEPTH + 1:
            self._note_cut(f"some lie deeper than {MAX_DEPTH} steps from a variable")
        elif len(self.tensors) < self._max_tensors:
            self._name_of[id(tensor)] = name
            self.tensors.append((name, tensor))
        else:
            self._note_cut(f"there are more than {self._max_tensors}")
            self._stopped = True

    def _is_plain_tuple(self, value: tuple[object, ...]) -> bool:
        """``kernel_size=(3, 3)``: a model is full of them."""
        if len(value) > 8:
            return False
        of = self._kinds.of
        for item in value:  # noqa: SIM110 - all() takes twice as long
            if of(item) is not PLAIN:
                return False
        return True

    def _module(self, name: str, module: object, depth: int, kind: Kind) -> None:
        known, classify = self._kinds.known, self._kinds.classify
        attributes = instance_dict(module, kind)
        holders, first = registered(attributes)
        for held in holders:
            for key, item in self._pairs(held, name):
                found = known.get(id(type(item))) or classify(type(item))
                if found is not PLAIN and type(key) is str:
                    item_name = _attribute_name(name, key, kind)
                    if found.role == kinds.TENSOR:
                        self._tensor(item_name, item, depth)
                    else:
                        self._meet(item_name, item, depth, found)
        for key, item in self._pairs(attributes, name, first):
            found = known.get(id(type(item))) or classify(type(item))
            if found is PLAIN or type(key) is not str or key[:1] == "_":
                pass
            elif not (found.is_tuple and self._is_plain_tuple(item)):
                self._meet(_attribute_name(name, key, kind), item, depth, found)

    def _held(self, name: str, value: Any, kind: Kind) -> Iterator[tuple[str, object]]:
        """Yield what *value* holds, with what a user would type to get it."""
        if kind.role == kinds.SEQUENCE:
            yield from self._sequence(name, value, kind)
        elif kind.role == kinds.DICT:
            for index, (key, item) in enumerate(self._pairs(value, name)):
                suffix = _key_suffix(key)
                yield name + suffix if suffix else f"list({name}.values())[{index}]", item
        else:
            is_optimizer = kind.role == kinds.OPTIMIZER
            for key, item in self._pairs(instance_dict(value, kind), name):
                if type(key) is str and key[:2] != "__":
                    # The state of an optimizer is keyed by tensors, and has no names.
                    if is_optimizer and (key[0] == "_" or key in ("state", "defaults")):
                        continue
                    yield f"{name}.{key}", item
            for key, item in slot_items(value, kind):
                yield f"{name}.{key}", item

    def _sequence(self, name: str, value: Any, kind: Kind) -> Iterator[tuple[str, object]]:
        base, fields = kind.base, kind.fields
        items = self._copy(name, lambda: islice(base.__iter__(value), MAX_ITEMS))
        if base.__len__(value) > MAX_ITEMS:
            self._mind_the_rest(name, items, lambda: _end(value, base))
        for index, item in enumerate(items):
            field = fields[index] if index < len(fields) else None
            yield (f"{name}.{field}" if type(field) is str else f"{name}[{index}]"), item

    def _pairs(self, held: Any, name: str, after: int = 0) -> list[tuple[object, Any]]:
        """Return keys and values of a dict, as many as the bound allows."""
        if dict.__len__(held) <= MAX_ITEMS:
            return self._copy(name, lambda: islice(dict.items(held), after, None))
        pairs = self._copy(name, lambda: islice(dict.items(held), after, MAX_ITEMS))
        values = [value for _, value in pairs]
        self._mind_the_rest(name, values, lambda: islice(reversed(dict.values(held)), _SAMPLE))
        return pairs

    def _copy(self, name: str, items: Callable[[], Iterable[Any]]) -> list[Any]:
        # In one step: another thread may be filling it.
        try:
            return list(items())
        except RuntimeError:
            self._note_cut(f"{name} was changing")
            return []

    def _mind_the_rest(
        self, name: str, items: list[Any], end: Callable[[], Iterable[object]]
    ) -> None:
        """Say that only the first items of *name* were looked at, unless they are numbers."""
        sample = [*items[:_SAMPLE], *self._copy(name, end)]
        if not all(map(self._is_plain, sample)):
            self._note_cut(f"{name} has more than {MAX_ITEMS} items")

    def _is_plain(self, item: Any) -> bool:
        kind = self._kinds.of(item)
        if kind.role == kinds.TENSOR or kind.role == kinds.MODULE:
            return False
        if kind is PLAIN:
            return True
        if kind.role == kinds.SEQUENCE:
            inner: list[Any] = self._copy("", lambda: islice(kind.base.__iter__(item), _SAMPLE))
        else:
            held = item if kind.role == kinds.DICT else instance_dict(item, kind)
            inner = self._copy("", lambda: islice(dict.values(held), _SAMPLE))
        return all(self._kinds.of(value) is PLAIN for value in inner)


def _attribute_name(name: str, key: str, kind: Kind) -> str:
    if key.isidentifier() and not kind.takes_key:
        return f"{name}.{key}"
    if kind.takes_key:
        return name + (_key_suffix(key) or f"[{key!r}]")
    if kind.takes_index and key.isdigit():
        return f"{name}[{key}]"
    return f"getattr({name}, {key!r})"


def _end(value: Any, base: Any) -> Iterable[object]:
    if base is deque:
        return islice(deque.__reversed__(value), _SAMPLE)
    end: Iterable[object] = base.__getitem__(value, slice(-_SAMPLE, None))
    return end


_SIMPLE_KEYS = frozenset(map(id, (int, float, bool, type(None))))


def _key_suffix(key: Any) -> str | None:
    """Return ``["w"]`` for a key that a user could type, else None."""
    if type(key) is str:
        if len(key) > _LONGEST_KEY:
            return None
        return f'["{key}"]' if key.isprintable() and not {'"', "\\"} & {*key} else f"[{key!r}]"
    if type(key) is tuple:
        if not 1 <= len(key) <= 4:
            return None
        parts = [_key_suffix(part) for part in key if type(part) is not tuple]
        if len(parts) < len(key) or None in parts:
            return None
        comma = "," if len(key) == 1 else ""
        return "[" + ", ".join(part[1:-1] for part in parts if part) + comma + "]"
    if id(type(key)) not in _SIMPLE_KEYS or key != key:
        return None
    return None if type(key) is int and key.bit_length() > 64 else f"[{key!r}]"
