"""What to type instead of a ``.data``, built from the user's own statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from ipy_autogradwatch.model import DataAccess, Site, SiteKind
from ipy_autogradwatch.rules._data import DataLine, kind_of
from ipy_autogradwatch.rules._snippet import Edit, Snippet, read

LONGEST = 160
"""Characters of a suggestion."""

Suffix = Callable[[DataAccess], str]
"""What takes the place of ``.data``: ``.detach()``, or nothing."""

_WRITES = (SiteKind.ASSIGN, SiteKind.UPDATE)
_INSIDE = re.compile(r"\s|@|(async|class|def|for)\b")
_SAME_WITHOUT = frozenset(
    [
        "data_ptr",
        "detach",
        "device",
        "dim",
        "dtype",
        "element_size",
        "is_contiguous",
        "is_cuda",
        "item",
        "ndim",
        "nelement",
        "numel",
        "shape",
        "size",
        "stride",
        "tolist",
    ]
)
"""What a tensor with a graph says and does as well as one without."""


def instead_of_read(line: DataLine) -> str:
    """Return the statement with ``.detach()``, or with nothing where nothing is needed."""
    if any(kind_of(access) in _WRITES for access in line.statement):
        # Another line of the statement writes, and its finding has the statement.
        return alone(line, read_suffix)
    return respelt(line, read_suffix)


def respelt(line: DataLine, suffix: Suffix) -> str:
    """Return the statement with every ``.data`` respelt; of a long one that access alone."""
    statement = parsed(line)
    text = "" if statement is None else statement.text(suffix)
    if not text or len(text) > LONGEST:
        return alone(line, suffix)
    return text


def alone(line: DataLine, suffix: Suffix) -> str:
    """Return the access respelt, without its statement."""
    return f"{line.access.site.receiver}{suffix(line.access)}"


def read_suffix(access: DataAccess) -> str:
    """Return what gives the same values without a graph."""
    return "" if access.is_lazy or not access.any_in_graph else ".detach()"


def no_suffix(access: DataAccess) -> str:
    """Return nothing, which is right under ``torch.no_grad()``."""
    return ""


def stands_free(site: Site) -> bool:
    """Whether the statement stands in no function, no class and no ``for`` loop.

    There ``w += 1`` assigns the name that ``w`` was found by.
    """
    first = site.statement.partition("\n")[0]
    return bool(first) and first in site.text and not _INSIDE.match(site.text)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement with its accesses."""

    snippet: Snippet
    accesses: dict[ast.expr, DataAccess]

    @property
    def node(self) -> ast.stmt:
        """Return the tree of the statement."""
        return self.snippet.node

    def text(self, suffix: Suffix, part: ast.AST | None = None) -> str:
        """Return the statement, or *part* of it, respelt."""
        edits: list[Edit] = []
        for node, access in self.accesses.items():
            edits += self._edits(node, access, suffix(access))
        return self.snippet.rewritten(edits, part)

    def root(self, node: ast.AST) -> ast.expr | None:
        """Return the access that *node* is made from: ``x.data`` of ``x.data.view(-1)[0]``."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            if node in self.accesses:
                return node
            node = node.func if isinstance(node, ast.Call) else node.value
        return None

    def _edits(self, node: ast.expr, access: DataAccess, suffix: str) -> list[Edit]:
        snippet = self.snippet
        start, end = snippet.span(node)
        holder = snippet.parents[node]
        receiver = node.args[0] if isinstance(node, ast.Call) else getattr(node, "value", None)
        if receiver in self.accesses:
            suffix = ""  # ``x.data.data``
        if isinstance(holder, ast.Attribute) and holder.attr in _SAME_WITHOUT:
            suffix = ""
        if isinstance(holder, ast.Call) and isinstance(holder.func, ast.Name):
            suffix = "" if holder.func.id == "len" else suffix
        if self._becomes_array(node):
            suffix = suffix or read_suffix(access)  # Refused of a tensor with a graph.
        if access.tensor.shape == () and _is_first_item(holder, node):
            # ``loss.data[0]`` of old tutorials, which raises today.
            return [*snippet.without_data(node, ".item()"), (end, snippet.span(holder)[1], "")]
        if isinstance(holder, ast.Call) and self._is_copy(holder, node):
            outer = snippet.span(holder)
            copied = [(outer[0], start, ""), (end, outer[1], ".clone()" + self._options(holder))]
            return [*snippet.without_data(node, suffix), *copied]
        return snippet.without_data(node, suffix)

    def _becomes_array(self, node: ast.AST) -> bool:
        """Whether *node* is in ``x.data.cpu().numpy()`` or ``np.asarray(x.data)``."""
        holder = self.snippet.parents[node]
        while isinstance(holder, (ast.Attribute, ast.Call, ast.Subscript)):
            if isinstance(holder, ast.Attribute) and holder.attr == "numpy":
                return True
            if isinstance(holder, ast.Call) and holder.func is not node:
                return ast.unparse(holder.func).startswith(("np.", "numpy."))
            if isinstance(holder, ast.Subscript) and holder.value is not node:
                return False
            node, holder = holder, self.snippet.parents[holder]
        return False

    def _is_copy(self, call: ast.Call, node: ast.expr) -> bool:
        """Whether *call* is ``torch.tensor(x.data)``, of which PyTorch warns."""
        inside = [part for keyword in call.keywords for part in ast.walk(keyword)]
        return (
            ast.unparse(call.func) == "torch.tensor"
            and call.args == [node]
            and {keyword.arg for keyword in call.keywords} <= {"dtype", "device", "requires_grad"}
            and not any(part in self.accesses for part in inside)
        )

    def _options(self, call: ast.Call) -> str:
        options = {str(k.arg): self.snippet.text(k.value) for k in call.keywords}
        requires_grad = options.pop("requires_grad", "False")
        to = ", ".join(f"{name}={value}" for name, value in options.items())
        text = f".to({to})" if to else ""
        if requires_grad != "False":
            text += f".requires_grad_({'' if requires_grad == 'True' else requires_grad})"
        return text


def parsed(line: DataLine) -> Parsed | None:
    """Return the statement of *line*, unless it cannot be read or its access not be found."""
    return reparsed(line.access.site.statement, line) if line.is_early else None


def reparsed(text: str, line: DataLine) -> Parsed | None:
    """Return *text* instead of the statement of *line*, as `parsed` does."""
    snippet = read(text)
    if snippet is None:
        return None
    statement = Parsed(snippet, snippet.find(line.statement))
    return statement if line.access in statement.accesses.values() else None


def _is_first_item(holder: ast.AST, node: ast.expr) -> bool:
    return (
        isinstance(holder, ast.Subscript)
        and holder.value is node
        and isinstance(holder.ctx, ast.Load)
        and isinstance(holder.slice, ast.Constant)
        and holder.slice.value == 0
    )
