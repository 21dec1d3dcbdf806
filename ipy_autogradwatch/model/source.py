"""Places in the user's source."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

PROBE_NAME = "__autogradwatch__"
"""What an instrumented cell calls the probe. Dunder at both ends: a name with a leading dunder only is mangled inside a class."""


class SiteKind(str, enum.Enum):
    """What a probed place in the source does, as far as the source tells."""

    READ = "read"
    """``x.data`` whose value is looked at: printed, logged, compared, turned into numpy."""
    CARRY = "carry"
    """``x.data`` whose value goes on: into a computation, a name, a container, a return."""
    UPDATE = "update"
    """``x.data += y``, ``x.data[i] = y``, ``x.data.add_(y)``: written through."""
    ASSIGN = "assign"
    """``x.data = y``: other storage under the same tensor."""
    DELETE = "delete"
    """``del x.data``, which PyTorch refuses."""
    BACKWARD = "backward"
    """``loss.backward()``, ``torch.autograd.backward(loss)``, ``torch.autograd.grad(...)``."""
    LEAF = "leaf"
    """A call that makes a leaf: ``requires_grad=True``, ``requires_grad_()``, ``Parameter``."""


class Part(enum.IntEnum):
    """Which expression of a site a probe stands around; the probe's third argument."""

    RECEIVER = 0
    """``x`` of ``x.data``."""
    ALIAS = 1
    """``x.data`` itself, when it is read."""
    VALUE = 2
    """``y`` of ``x.data = y``; evaluated before x."""
    ROOT = 3
    """What a backward starts from: a tensor, or a sequence of tensors."""
    ARGUMENT = 4
    """First argument of ``E.backward(argument)``: a root if E is no tensor."""
    FUNCTION = 5
    """``grad`` of ``grad(outputs, inputs)``: torch's own, or somebody else's?"""
    LEAF = 6
    """A call that makes a leaf, or ``x`` of ``x.requires_grad = True``."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of a cell's source.

    Lines count from 1 and columns from 0, and a column counts UTF-8 *bytes*, all as in
    ``ast``. Only the renderer converts bytes to characters.
    """

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the source that carries a probe.

    Attributes:
        kind: What the source alone says of it; what really happened is a `DataAccess`.
        cell: Execution count of the cell whose source holds it, or None for a file.
        file: Name of the notebook that ``%run`` ran, or None for a cell.
        span: Where, as the user sees it in the editor. ``line`` is that of the word
            ``data`` when an expression goes over several lines.
        receiver: ``model.weight`` for ``model.weight.data``, in the user's spelling.
        statement: The statement around it, or the first line of a compound one.
        consumer: What takes the value, as the user wrote it (``print``, ``.numpy``), or for
            a backward ``backward`` or ``grad``, or
            an empty string.
        text: The whole line of `span`, as it stands in the editor.
    """

    kind: SiteKind
    cell: int | None
    file: str | None
    span: Span
    receiver: str
    statement: str
    consumer: str = ""
    text: str = ""

    def to_constant(self) -> tuple[object, ...]:
        """Return this site as a tuple of strings and numbers, fit for `ast.Constant`."""
        span = self.span
        return (
            self.kind.value,
            self.cell,
            self.file,
            (span.line, span.column, span.end_line, span.end_column),
            self.receiver,
            self.statement,
            self.consumer,
            self.text,
        )

    @classmethod
    def from_constant(cls, constant: tuple[Any, ...]) -> Site:
        """Return the site that `to_constant` wrote down."""
        kind, cell, file, span, *words = constant
        return cls(SiteKind(kind), cell, file, Span(*span), *words)
