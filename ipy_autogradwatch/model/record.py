"""What was observed while a cell ran."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ipy_autogradwatch.model.proof import GradientVerdict
from ipy_autogradwatch.model.source import Site
from ipy_autogradwatch.model.tensor import TensorFacts, TensorState


@dataclass(frozen=True, slots=True)
class DataAccess:
    """What one ``.data`` site did while one cell ran; a loop makes many hits of one site.

    Attributes:
        site: Where.
        hits: How often it met a tensor.
        tensor: The first tensor it met, as it was then.
        names: What the tensors go by in the namespace, without repeats, the first few.
        written: The version counter of a tensor that ``.data`` returned went up: somebody
            wrote through it.
        counted: There was such a counter to watch; without one the source has to tell.
        any_in_graph: One of the tensors requires grad or has a grad_fn.
        assigned: What ``x.data = y`` put in the place of ``tensor`` (its y), the first
            time that shape, dtype or device differ, else the first.
        replaced: The tensor that `assigned` took the place of, as it was then.
        is_gradient: The receiver is the ``.grad`` of a leaf.
        gradients: `TensorState.identity` of the gradients that assigned tensors had then.
        is_lazy: The receiver is a parameter without a shape yet.
    """

    site: Site
    hits: int
    tensor: TensorFacts
    names: tuple[str, ...] = ()
    written: bool = False
    counted: bool = False
    any_in_graph: bool = False
    assigned: TensorFacts | None = None
    replaced: TensorFacts | None = None
    is_gradient: bool = False
    is_lazy: bool = False
    gradients: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BackwardCall:
    """What one backward site started from and reached.

    Attributes:
        roots: Its roots by name, or as the user wrote them.
        reaches: Names of the leaves that the roots are connected to.
        nodes: Number of nodes walked.
        hits: How often the site ran.
        walks: How often its graph was walked: the first time, and when it changed.
        cut: A walk was cut, so `reaches` may lack some.
        requires_grad: Whether any root requires grad. If none does, backward raises.
        uncleared: Names of leaves whose ``.grad`` still was that of an earlier step, with an
            update in between, so that this backward added to it.
        zero: Names of leaves that are reached only through nodes whose derivative is zero.
        flat: Names of such nodes.
        late: Sites that made a leaf after the graph was made, of leaves not reached.
    """

    site: Site
    roots: tuple[str, ...]
    reaches: tuple[str, ...]
    nodes: int
    hits: int
    walks: int
    cut: bool
    requires_grad: bool
    uncleared: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    late: tuple[Site, ...] = ()


class DamageKind(str, enum.Enum):
    """How a write through ``.data`` made a gradient wrong."""

    SAVED = "saved"
    """A node had saved the values that were overwritten, and used the new ones."""
    SWAPPED = "swapped"
    """A node had saved the tensor itself, whose memory was exchanged by an assignment."""
    UNRECORDED = "unrecorded"
    """A node computed with the edited values, and the graph knows nothing of the edit."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A gradient that is wrong because of a write through ``.data``.

    Attributes:
        site: Where the write is, in this cell or an earlier one.
        node: Name of the node of the graph that suffered.
        backward: Where the backward that used it was called.
        leaves: Names of the leaves whose gradients are wrong.
    """

    site: Site
    kind: DamageKind
    node: str
    backward: Site
    leaves: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CellSource:
    """A cell that ran, as text. Each run is its own object, equal to no other.

    Attributes:
        cell: Execution count.
        raw: As the user sees it.
        python: As Python parses it: magics replaced, the body alone for ``%%time``.
        down: How many lines further down the editor has what `python` has.
    """

    cell: int
    raw: str
    python: str
    down: int = 0


@dataclass(frozen=True, slots=True)
class CellRecord:
    """Everything observed while one cell ran: the only input of a rule.

    Attributes:
        cell: Execution count, as in the prompt.
        before, after: Tensors of the namespace by the name a user would type.
        cuts: What was left out for want of time or space, a sentence each.
        error: Class and text of the exception that ended the cell, or None.
        error_at: (cell, line) of the traceback's frames that stand in cells, outermost first.
        sources: The cells that ran, this one last.
        verdicts: What ``%%gradcheck`` settled.
        grad_off_before, grad_off: Gradients were switched off when the cell began, and when
            it ended.
    """

    cell: int
    accesses: tuple[DataAccess, ...] = ()
    backwards: tuple[BackwardCall, ...] = ()
    damages: tuple[Damage, ...] = ()
    before: Mapping[str, TensorState] = field(default_factory=dict)
    after: Mapping[str, TensorState] = field(default_factory=dict)
    cuts: tuple[str, ...] = ()
    error: tuple[str, str] | None = None
    error_at: tuple[tuple[int, int], ...] = ()
    sources: Sequence[CellSource] = ()
    verdicts: tuple[GradientVerdict, ...] = ()
    grad_off_before: bool = False
    grad_off: bool = False
