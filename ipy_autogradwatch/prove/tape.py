"""What was recorded of a cell: plain data between recording and replaying.

Tensors are told apart by where their elements lie, not by identity: a view is another
object below autograd than above it, and an alias made by numpy is nobody's view. Where the
elements lie is a `View`; the memory that they lie in is a *home*, named by its address. The
tape holds the memory, so that no address comes back as another's.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

Home: TypeAlias = Any
"""Address of the first byte of a storage; for a tensor without strides, its own key."""

View: TypeAlias = tuple[Any, ...]
"""(home, storage offset, shape, stride, dtype, is conjugated)."""

Place: TypeAlias = tuple[int | None, int]
"""(execution count of the cell, line); lines count from 1."""

NO_CUT = -1


class CutKind(str, enum.Enum):
    """How a value left its graph and went on as a tensor."""

    DATA = "data"
    DETACH = "detach"


@dataclass(frozen=True, slots=True)
class Cut:
    """One ``.data`` or ``.detach()`` that ran."""

    kind: CutKind
    place: Place | None
    home: Home = None


class Ref:
    """An argument of an operation.

    Attributes:
        view: Where it lies.
        cut: Number of the cut through which it was taken, or `NO_CUT`.
        is_foreign: It has a graph that is not on the tape.
    """

    __slots__ = ("cut", "is_foreign", "view")

    def __init__(self, view: View, cut: int, *, is_foreign: bool = False) -> None:
        self.view = view
        self.cut = cut
        self.is_foreign = is_foreign


@dataclass(slots=True, eq=False)
class Load:
    """A value that the computation began with: a leaf, or a constant.

    Attributes:
        leaf: The leaf, or None for a constant. Weak: the tape keeps nobody's tensor.
        value: Shares memory with what was read, until that is written; then a copy.
        view: Where `value` lies.
        copied: `value` is a copy.
        place: The line that read it first.
    """

    view: View
    value: torch.Tensor
    leaf: weakref.ref[torch.Tensor] | None = None
    copied: bool = False
    place: Place | None = None

    @property
    def home(self) -> Home:
        """Whose content it is."""
        return self.view[0]


@dataclass(slots=True, eq=False)
class FunctionCall:
    """One call of a custom ``torch.autograd.Function``.

    Attributes:
        name: Of the class.
        sequence: Number of its node.
        inputs: Its tensor arguments, None for others.
        backward: Where its ``backward`` is written, if in a cell.
        output: Where its first output lies, once somebody has read it.
    """

    name: str
    sequence: int
    inputs: tuple[Ref | None, ...]
    place: Place | None
    backward: Place | None
    output: Ref | None = None


@dataclass(slots=True, eq=False)
class Op:
    """One operation, as PyTorch dispatched it.

    Attributes:
        function: The overload that ran.
        arguments, keywords: As given, with a `Ref` for each tensor.
        outputs: Where its results lie, None for a result that is no tensor.
        inputs: Every Ref among the arguments.
        written: Those that it wrote into.
        is_stopped: It ran where gradients were switched off by the user.
        call: The custom Function in whose forward it ran.
        is_alias: Its results share memory with an input.
        constant: Its results, for an operation that draws random numbers.
        place: The line of the cell that led to it.
    """

    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    inputs: tuple[Ref, ...]
    written: tuple[Ref, ...]
    is_stopped: bool
    call: FunctionCall | None
    place: Place | None
    outputs: tuple[View | None, ...] = ()
    is_alias: bool = False
    constant: tuple[Any, ...] | None = None

    def homes(self) -> Iterator[Home]:
        """Yield the homes whose content it decides; a view decides none."""
        for view in self.outputs:
            if view is not None and not self.is_alias:
                yield view[0]
        for ref in self.written:
            yield ref.view[0]


@dataclass(slots=True, eq=False)
class Tape:
    """What was recorded, in order.

    Attributes:
        memory: What keeps the memory of each home.
        sizes: Number of bytes of each home.
        cuts: Every cut, by the number that a `Ref` carries.
        hooked: Tensor hooks that were met: where the hook is written.
        retired: Memory of homes that were overwritten by what is not recorded.
        exits: Numbers that ``item()`` made of connected tensors, and where.
        stopped: Why recording ended early, or an empty string.
    """

    entries: list[Load | Op] = field(default_factory=list)
    memory: dict[Home, Any] = field(default_factory=dict)
    sizes: dict[Home, int] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    calls: list[FunctionCall] = field(default_factory=list)
    hooked: dict[Place | None, str] = field(default_factory=dict)
    exits: list[tuple[float, Place | None]] = field(default_factory=list)
    returns: list[tuple[Place | None, Place | None]] = field(default_factory=list)
    retired: list[Any] = field(default_factory=list)
    stopped: str = ""
