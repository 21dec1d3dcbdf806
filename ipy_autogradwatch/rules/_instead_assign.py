"""What to type instead of ``x.data = y``: a copy, or a new tensor where that is meant."""

from __future__ import annotations

import ast
import re

from ipy_autogradwatch.model import CellRecord, TensorFacts
from ipy_autogradwatch.rules._data import DataLine
from ipy_autogradwatch.rules._grad_mode import differentiates, has_no_graph, under_no_grad
from ipy_autogradwatch.rules._instead import (
    LONGEST,
    Parsed,
    Suffix,
    no_suffix,
    parsed,
    read_suffix,
    stands_free,
)
from ipy_autogradwatch.rules._snippet import read
from ipy_autogradwatch.rules._source import dotted

_VIEWS = frozenset(
    [
        "H",
        "T",
        "as_strided",
        "bfloat16",
        "conj",
        "contiguous",
        "cpu",
        "cuda",
        "data",
        "detach",
        "diagonal",
        "double",
        "expand",
        "expand_as",
        "flatten",
        "float",
        "half",
        "imag",
        "mH",
        "mT",
        "moveaxis",
        "movedim",
        "narrow",
        "permute",
        "ravel",
        "real",
        "reshape",
        "reshape_as",
        "resolve_conj",
        "select",
        "squeeze",
        "swapaxes",
        "swapdims",
        "t",
        "to",
        "transpose",
        "type",
        "type_as",
        "unflatten",
        "unfold",
        "unsqueeze",
        "view",
        "view_as",
    ]
)
"""What gives, or may give, other indices into the same memory."""
_ATOMS = (ast.Attribute, ast.Call, ast.Name, ast.Subscript)


def instead_of_assign(line: DataLine, record: CellRecord) -> str:
    """Return a copy under ``torch.no_grad()``, or a new tensor where another kind is put in."""
    assignment = _Assignment(line)
    text = assignment.instead(record)
    if len(text) > LONGEST:
        text = _Assignment(line, known=False).instead(record)
    return text


def instead_of_delete(line: DataLine) -> str:
    """Return the deletion of the tensor, if it has a name."""
    text = f"del {line.access.site.receiver}"
    return text if read(text) is not None else "del …"


class _Assignment:
    """``x.data = y`` in its parts; with ``…`` for y where the statement is more than that.

    Attributes:
        receiver: x.
        place: What can be assigned in its place: x, or ``…`` if that is hard to say.
    """

    def __init__(self, line: DataLine, *, known: bool = True) -> None:
        self._line = line
        self._access = line.access
        self._statement = parsed(line) if known else None
        self._value: ast.expr | None = None
        self.receiver = self.place = line.access.site.receiver
        target: ast.expr | None = None
        if self._statement is not None:
            target, self._value = _parts(self._statement)
            if target is not None and not isinstance(target, ast.Call):
                self.receiver = self.place = self._statement.text(no_suffix, part=target)
        if not re.fullmatch(r"\w+(\.\w+)*", self.place):
            self.place = "…"  # An item, perhaps of a tuple; a call.
        elif "." not in self.place and not stands_free(line.access.site):
            self.place = "…"  # The variable of a loop, or of a function.

    def instead(self, record: CellRecord) -> str:
        new, old = self._access.assigned, self._access.replaced
        if new is None or old is None or kind_of_tensor(new) == kind_of_tensor(old):
            if self._access.is_gradient and self._value is not None:
                return f"{self.receiver} = {self._without_graph()}"
            return self._copy(record)
        if self._access.is_gradient:
            return f"{self.receiver} = None    # a gradient is of the kind of its tensor"
        if not self._access.any_in_graph or not old.is_leaf:
            return f"{self.place} = {self._without_graph()}"
        if not new.dtype.startswith(("float", "bfloat", "complex")):
            return self._copy(record) if new.shape == old.shape else self._parameter("…")
        is_moved = new.device != old.device
        if new.shape == old.shape and (self.place == "…" or (is_moved and "." in self.place)):
            owner = self.place.partition(".")[0] if "." in self.place else "model"
            what = f'"{new.device}"' if is_moved else f"torch.{new.dtype}"
            return f"{owner}.to({what})    # all its parameters, and then the optimizer"
        return self._parameter(self._text(read_suffix))

    def _text(self, suffix: Suffix) -> str:
        if self._statement is None or self._value is None:
            return "…"
        return self._statement.text(suffix, part=self._value)

    def _parameter(self, value: str) -> str:
        return f"{self.place} = torch.nn.Parameter({value})    # and a new optimizer"

    def _without_graph(self) -> str:
        value, new = self._text(read_suffix), self._access.assigned
        if new is None or not new.in_graph:
            return value
        return f"{value if isinstance(self._value, _ATOMS) else f'({value})'}.detach()"

    def _copy(self, record: CellRecord) -> str:
        """Return a copy into the memory that is there."""
        statement, value, new = self._statement, self._value, self._access.assigned
        site = self._access.site
        if value is not None and differentiates(value):
            value = None
        no_graph = not self._access.any_in_graph and new is not None and not new.in_graph
        if (
            no_graph
            and statement is not None
            and value is not None
            and has_no_graph(statement, value, record, site)
        ):
            return f"{self.receiver}.copy_({self._text(read_suffix)})"
        text = "…" if value is None else self._text(no_suffix)
        if value is not None and self._may_overlap(value):
            text += ".clone()" if isinstance(value, _ATOMS) else ""
        copy = f"{self.receiver}.copy_({text})"
        return copy if under_no_grad(site, record) else f"with torch.no_grad(): {copy}"

    def _may_overlap(self, value: ast.expr) -> bool:
        """Whether *value* may be another view of the receiver's memory, like ``x.data.t()``."""
        statement = self._statement
        assert statement is not None
        while True:
            if isinstance(value, ast.Call) and dotted(value.func).startswith("torch."):
                if dotted(value.func).rpartition(".")[2] not in _VIEWS or not value.args:
                    return False
                value = value.args[0]
            elif value in statement.accesses:
                return statement.accesses[value].site.receiver == self._access.site.receiver
            elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                if value.func.attr not in _VIEWS:
                    return False
                value = value.func.value
            elif isinstance(value, ast.Attribute):
                if ast.unparse(value) == self._access.site.receiver:
                    return True
                value = value.value
            elif isinstance(value, ast.Subscript):
                value = value.value
            elif isinstance(value, ast.Call):
                inside = [n for a in (*value.args, *value.keywords) for n in ast.walk(a)]
                return any(n in statement.accesses for n in inside)
            else:
                return isinstance(value, ast.Name) and value.id == self._access.site.receiver


def kind_of_tensor(tensor: TensorFacts) -> tuple[object, ...]:
    """Return what two tensors must share for one to be copied into the other as it is."""
    return tensor.shape, tensor.dtype, tensor.device


def _parts(statement: Parsed) -> tuple[ast.expr | None, ast.expr | None]:
    """Return the one access that is assigned and the value, if that is all there is."""
    node = statement.node
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target, value = node.target, node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        target = node.value
        value = target.args[-1] if target.args else target
    else:
        return None, None
    return (target, value) if target in statement.accesses else (None, None)
