"""What was true of a tensor."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What was true of one tensor at one moment. Metadata only.

    Attributes:
        shape: None for a lazy parameter that has none yet.
        dtype, device: As PyTorch prints them, without the ``torch.``.
        grad_fn: Name of the node that computed the tensor, or None.
        version: The version counter (``Tensor._version``); None for an inference tensor,
            which has none.
        subclass: Name of its class when that is neither Tensor nor Parameter.
    """

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    requires_grad: bool
    is_leaf: bool
    grad_fn: str | None
    version: int | None
    subclass: str | None = None

    @property
    def in_graph(self) -> bool:
        """Whether autograd has, or would record, anything about it."""
        return self.requires_grad or self.grad_fn is not None


class GradChange(str, enum.Enum):
    """What the cell did to a ``.grad`` (`GradState.identity`)."""

    UNCHANGED = "unchanged"
    NEW = "new"
    """None before, present after."""
    REPLACED = "replaced"
    """Another tensor than before."""
    ACCUMULATED = "accumulated"
    """The same tensor, and a backward of this cell added to it."""
    WRITTEN = "written"
    """The same tensor, written in place, and no backward was seen to reach its leaf:
    ``zero_()``, clipping, or a backward inside library code."""
    CLEARED = "cleared"
    """Present before, None after."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class GradState:
    """The ``.grad`` of one tensor.

    Attributes:
        identity: What the cell did to it; in a report's ``before`` always ``unchanged``.
        version: Its version counter; None when it was cleared, or has none.
        norm, max_abs, mean_abs, nonfinite: Euclidean norm, largest and mean magnitude,
            and the number of NaN and infinite elements. None unless ``%%gradcheck`` asked
            for them: reading elements may wait for a device.
        number: `TensorState.identity` of the gradient itself.
    """

    identity: GradChange
    version: int | None = None
    norm: float | None = None
    max_abs: float | None = None
    mean_abs: float | None = None
    nonfinite: int | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class TensorState:
    """A tensor of the namespace at the start or at the end of a cell.

    Attributes:
        reaches: Names of the leaves it is connected to, along the edges of its graph, in
            the namespace's order. A leaf without a name is called by what made it:
            ``<leaf of cell 3, line 2>``.
        reaches_cut: The walk was cut, so `reaches` may lack some.
        grad: None when there is no ``.grad`` and was none before the cell.
        identity: A number of ours for the tensor object; the same object keeps it from
            cell to cell.
        storage: Address of its storage, or None where that cannot be told.
        is_parameter: It is an ``nn.Parameter``.
        also: Other names of the same object.
        base: `identity` of the tensor that it is a view of, for a view with a graph.
        holds: How many graphs of earlier backwards it is connected to.
    """

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    requires_grad: bool
    is_leaf: bool
    grad_fn: str | None
    version: int | None
    reaches: tuple[str, ...] = ()
    reaches_cut: bool = False
    grad: GradState | None = None
    identity: int = 0
    storage: int | None = None
    is_parameter: bool = False
    also: tuple[str, ...] = ()
    base: int | None = None
    holds: int = 0
