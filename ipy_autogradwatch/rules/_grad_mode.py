"""Whether a write needs ``torch.no_grad()`` around it, and whether it bears it."""

from __future__ import annotations

import ast
import functools
import re

from ipy_autogradwatch.model import CellRecord, Site
from ipy_autogradwatch.rules._instead import Parsed, stands_free
from ipy_autogradwatch.rules._source import dotted

_DIFFERENTIATES = frozenset({"grad", "hessian", "jacobian", "jvp", "vjp"})
_FACTORIES = frozenset(
    f"torch.{name}"
    for name in ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn")
) | {"torch.randperm", "torch.tensor", "torch.zeros"}
_PLAIN = (
    ast.Assign,
    ast.AugAssign,
    ast.BinOp,
    ast.Constant,
    ast.Expr,
    ast.expr_context,
    ast.keyword,
    ast.List,
    ast.operator,
    ast.Slice,
    ast.Tuple,
    ast.UnaryOp,
    ast.unaryop,
)
_NO_GRAD = re.compile(r"\s*(@|with\s+)(torch\.)?(no_grad|inference_mode)\b")
_FUNCTION = re.compile(r"\s*((async\s+)?def|class)\b")
_LINES_UP = 200


def differentiates(node: ast.AST) -> bool:
    """Whether *node* computes a graph and its gradient on the spot, impossible under no_grad."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        inside = [part for a in (*call.args, *call.keywords) for part in ast.walk(a)]
        if name == "backward" or (
            name in _DIFFERENTIATES and any(isinstance(part, ast.Call) for part in inside)
        ):
            return True
    return False


def has_no_graph(statement: Parsed, part: ast.AST, record: CellRecord, site: Site) -> bool:
    """Whether surely nothing in *part*, its ``.data`` apart, has a graph.

    Then a tensor without a graph may be written as it is: with a graph on the other side,
    it would get one. In doubt no; ``torch.no_grad()`` is right in any case.
    """
    stack = [part]
    while stack:
        node = stack.pop()
        if node in statement.accesses:
            continue
        if statement.root(node) is not None or isinstance(node, _PLAIN):
            stack += ast.iter_child_nodes(node)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if not _name_has_no_graph(node, record, site):
                return False
        elif isinstance(node, ast.Call) and dotted(node.func) in _FACTORIES:
            stack += [*node.args, *node.keywords]
        else:
            return False
    return True


def _name_has_no_graph(node: ast.expr, record: CellRecord, site: Site) -> bool:
    name = node
    while isinstance(name, ast.Subscript):
        name = name.value
    words = dotted(name).split(".")
    if words[0] == "torch" or words[-1] == "grad":
        return True
    if not words[0] or record.cuts or not stands_free(site):
        return False
    names = {".".join(words[: count + 1]) for count in range(len(words))}
    states = [s for n in names for s in (record.before.get(n), record.after.get(n)) if s]
    # A plain name that is no tensor is a number; a part of something may be anything.
    is_known = bool(states) or isinstance(node, ast.Name)
    return is_known and not any(s.requires_grad or s.grad_fn is not None for s in states)


def under_no_grad(site: Site, record: CellRecord) -> bool:
    """Whether *site* stands in a ``no_grad`` block or function already."""
    if _NO_GRAD.match(site.text):
        return True
    raw = next((s.raw for s in reversed(record.sources) if s.cell == site.cell), "")
    above = _lines(raw)[max(0, site.span.line - 1 - _LINES_UP) : site.span.line - 1]
    indent = len(site.text) - len(site.text.lstrip())
    in_header = False
    for line in reversed(above):
        left = len(line) - len(line.lstrip())
        if in_header and left == indent and line.lstrip().startswith("@"):
            if _NO_GRAD.match(line):
                return True
            continue
        if in_header:
            return False
        if not line.strip() or left >= indent:
            continue
        if _NO_GRAD.match(line):
            return True
        indent = left
        in_header = _FUNCTION.match(line) is not None
    return False


@functools.lru_cache(maxsize=4)
def _lines(raw: str) -> list[str]:
    return raw.splitlines()
