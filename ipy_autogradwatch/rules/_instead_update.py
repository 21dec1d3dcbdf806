"""What to type instead of a write through ``.data``: one that the version counter sees."""

from __future__ import annotations

import ast

from ipy_autogradwatch.model import CellRecord, DataAccess, SiteKind
from ipy_autogradwatch.rules._data import DataLine, kind_of
from ipy_autogradwatch.rules._grad_mode import differentiates, has_no_graph, under_no_grad
from ipy_autogradwatch.rules._instead import (
    LONGEST,
    Parsed,
    Suffix,
    no_suffix,
    parsed,
    read_suffix,
    reparsed,
    respelt,
    stands_free,
)
from ipy_autogradwatch.rules._snippet import Edit
from ipy_autogradwatch.rules._source import dotted

_METHODS: dict[type[ast.operator], str] = {
    ast.Add: "add_",
    ast.Sub: "sub_",
    ast.Mult: "mul_",
    ast.Div: "div_",
    ast.FloorDiv: "floor_divide_",
    ast.Mod: "remainder_",
    ast.Pow: "pow_",
    ast.BitAnd: "bitwise_and_",
    ast.BitOr: "bitwise_or_",
    ast.BitXor: "bitwise_xor_",
    ast.LShift: "bitwise_left_shift_",
    ast.RShift: "bitwise_right_shift_",
}


def instead_of_update(line: DataLine, record: CellRecord) -> str:
    """Return the write itself under ``torch.no_grad()``, or one through ``.detach()``."""
    site = line.access.site
    if site.kind is not SiteKind.UPDATE:
        # Written later, through a name or by a function.
        return respelt(line, _detached)
    statement = parsed(line)
    text = "" if statement is None else _counted(statement, line, record)
    if text and len(text) <= LONGEST:
        return text
    return f"with torch.no_grad(): …    # and {site.receiver} in place of {site.receiver}.data"


def _counted(statement: Parsed, line: DataLine, record: CellRecord) -> str:
    """Return *statement* with writes that are counted, or nothing where that takes more."""
    statement = _without_array(statement, line) or statement
    if _is_the_write(statement):
        return "" if differentiates(statement.node) else _write(statement, line, record)
    stored = (n for n in statement.snippet.parents if isinstance(getattr(n, "ctx", 0), ast.Store))
    if any(map(statement.root, stored)):
        return ""
    # Under no_grad the rest of the statement would lose its graph.
    return statement.text(_detached)


def _detached(access: DataAccess) -> str:
    return ".detach()" if kind_of(access) is SiteKind.UPDATE else read_suffix(access)


def _plain(access: DataAccess) -> str:
    return "" if kind_of(access) is SiteKind.UPDATE else read_suffix(access)


def _write(statement: Parsed, line: DataLine, record: CellRecord) -> str:
    node, site = statement.node, line.access.site
    called = node.value if isinstance(node, ast.Expr) else None
    if isinstance(called, ast.Call):
        if zeroed := _zeroed_gradient(called, statement):
            return f"{zeroed} = None    # or optimizer.zero_grad()"
        base, _, name = dotted(called.func).rpartition(".")
        if base.rpartition(".")[2] == "init" and name.endswith("_"):
            return statement.text(_plain)  # They are under no_grad themselves.
    written = [a for a in statement.accesses.values() if kind_of(a) is SiteKind.UPDATE]
    no_graph = not any(access.any_in_graph for access in written)
    if no_graph and has_no_graph(statement, node, record, site):
        return _spelt(statement, line, _plain)
    text = _spelt(statement, line, no_suffix)
    return text if not text or under_no_grad(site, record) else f"with torch.no_grad(): {text}"


def _spelt(statement: Parsed, line: DataLine, suffix: Suffix) -> str:
    """Return the write; ``x.data += y`` as a method where ``x += y`` would assign x."""
    node = statement.node
    if not isinstance(node, ast.AugAssign) or node.target not in statement.accesses:
        return statement.text(suffix)
    method = _METHODS.get(type(node.op))
    if method is None:
        return ""
    receiver = statement.text(no_suffix, part=node.target)
    if receiver.isidentifier() and stands_free(line.access.site):
        return statement.text(suffix)
    value = statement.text(suffix, part=node.value)
    if isinstance(node.value, (ast.Tuple, ast.Yield, ast.YieldFrom)):
        value = f"({value})"
    return f"{receiver}.{method}({value})"


def _zeroed_gradient(call: ast.Call, statement: Parsed) -> str:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "zero_":
        return ""
    for node in (call.func.value, *call.args):
        if node in statement.accesses and statement.accesses[node].is_gradient:
            return statement.text(no_suffix, part=node)
    return ""


def _is_the_write(statement: Parsed) -> bool:
    """Whether all that *statement* does is write, so that none of it needs a graph."""
    node = statement.node
    if isinstance(node, ast.Expr):
        return _writes(node.value, statement)
    targets = _targets(node)
    return bool(targets) and all(_is_written(target, statement) for target in targets)


def _writes(node: ast.expr, statement: Parsed) -> bool:
    if isinstance(node, (ast.ListComp, ast.SetComp)):
        return _writes(node.elt, statement)
    if isinstance(node, ast.IfExp):
        branches = (node.body, node.orelse)
        return all(isinstance(b, ast.Constant) or _writes(b, statement) for b in branches)
    if isinstance(node, ast.BoolOp):
        parts = [v for v in node.values if any(n in statement.accesses for n in ast.walk(v))]
        return all(_writes(part, statement) for part in parts)
    if not isinstance(node, ast.Call):
        return False
    if _is_written(node, statement):
        return True
    # ``torch.relu_(x.data)``, ``torch.add(a, b, out=x.data)``, ``f([x.data])``
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    given = [n for a in arguments for n in (a.elts if isinstance(a, ast.List) else [a])]
    return any(_is_written(n, statement) and not _is_in_place(n) for n in given)


def _is_written(node: ast.expr, statement: Parsed) -> bool:
    """Whether *node* is made from an access, and not by way of an array."""
    root = statement.root(node)
    while root is not None and node is not root:
        if isinstance(node, ast.Attribute) and node.attr == "numpy":
            return False
        node = node.func if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined]
    return root is not None


def _is_in_place(node: ast.expr) -> bool:
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(isinstance(f, ast.Attribute) and f.attr.endswith("_") for f in called)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    targets = list(node.targets) if isinstance(node, ast.Assign) else []
    flat: list[ast.expr] = []
    while targets:
        target = targets.pop(0)
        if isinstance(target, (ast.Tuple, ast.List)):
            targets = [*target.elts, *targets]
        else:
            flat.append(target)
    return flat


def _without_array(statement: Parsed, line: DataLine) -> Parsed | None:
    """Return ``x.data[i] = y`` for ``x.data.numpy()[i] = y``, which no counter sees."""
    node, snippet = statement.node, statement.snippet
    edits: list[Edit] = []
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        for target in _targets(node):
            array: ast.expr = target
            while isinstance(array, ast.Subscript):
                array = array.value
            if not _is_array(array, statement) or _goes_backwards(target):
                return None
            assert isinstance(array, ast.Call)
            assert isinstance(array.func, ast.Attribute)
            edits.append((snippet.span(array.func.value)[1], snippet.span(array)[1], ""))
        if not _is_number(node.value):
            start, end = snippet.span(node.value)
            edits += [(start, start, "torch.as_tensor("), (end, end, ")")]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        fill = node.value.func
        if not isinstance(fill, ast.Attribute) or fill.attr != "fill":
            return None
        if _is_array(fill.value, statement):
            assert isinstance(fill.value, ast.Call)
            assert isinstance(fill.value.func, ast.Attribute)
            access_end = snippet.span(fill.value.func.value)[1]
            edits.append((access_end, snippet.span(fill)[1], ".fill_"))
    return reparsed(snippet.rewritten(edits), line) if edits else None


def _is_array(node: ast.expr, statement: Parsed) -> bool:
    """Whether *node* is ``x.data.numpy()``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "numpy"
        and node.func.value in statement.accesses
        and not (node.args or node.keywords)
    )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant)


def _goes_backwards(target: ast.expr) -> bool:
    """Whether it has a slice like ``[::-1]``, which torch lacks."""
    steps = [n.step for n in ast.walk(target) if isinstance(n, ast.Slice) and n.step is not None]
    return not all(isinstance(step, ast.Constant) for step in steps)
