"""What the source says about a use of ``.data``: looked at, written, or carried on.

Only the source is asked here, and only for what run time does not show: who takes the
value. Whether it was written is seen at run time, by the alias's version counter.
"""

from __future__ import annotations

import ast

from ipy_autogradwatch.instrument.takers import (
    COPYING_METHODS,
    LOOKING_FUNCTIONS,
    LOOKING_MODULES,
    LOOKS,
    NO_WRITE,
    PASSING_FUNCTIONS,
    TORCH,
    WITH_INDICES,
    WRITING_ARRAY_METHODS,
    WRITING_DUNDERS,
)
from ipy_autogradwatch.model import SiteKind

Use = tuple[SiteKind, str]
"""What kind of use it is, and what takes the value."""


class Parents:
    """The parent of every node that was walked."""

    def __init__(self) -> None:
        # The nodes live as long as the tree does, so their ids stay theirs.
        self._parent: dict[int, ast.AST] = {}
        self.uses: dict[int, Use] = {}
        """What is known of the value of a node, so that a sum is not climbed once a term."""

    def note(self, node: ast.AST, parent: ast.AST) -> None:
        """Remember that *node* stands in *parent*."""
        self._parent[id(node)] = parent

    def of(self, node: ast.AST) -> ast.AST:
        """Return the parent of *node*."""
        return self._parent[id(node)]

    def get(self, node: ast.AST) -> ast.AST | None:
        """Return the parent of *node*; None for the tree itself."""
        return self._parent.get(id(node))


_TRANSPARENT = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.IfExp,
    ast.Starred,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Await,
    ast.Slice,
)


def use_of(node: ast.Attribute | ast.Call, parents: Parents) -> Use:
    """Return what kind of use the access *node* is, and what takes its value.

    Args:
        node: ``x.data``, or ``getattr(x, "data")``.
        parents: Of the tree that holds it.
    """
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return _stored(node, parents)
    value: ast.AST = node
    climbed: list[tuple[ast.AST, str]] = []
    use: Use | None = None
    while use is None:
        use = parents.uses.get(id(value))
        if use is None:
            use, holder = _step(value, parents)
            climbed.append((value, "" if use else _torch_function(holder)))
            value = holder
    for value, function in reversed(climbed):
        if function and use[0] is SiteKind.CARRY:
            # Of all that it goes through, the first function says most.
            use = (SiteKind.CARRY, function)
        parents.uses[id(value)] = use
    return use


def _stored(node: ast.Attribute, parents: Parents) -> Use:
    if isinstance(node.ctx, ast.Del):
        return SiteKind.DELETE, ""
    if isinstance(parents.of(node), ast.AugAssign):
        # The target of ``x.data += y`` has ctx Store, like that of a plain assignment.
        return SiteKind.UPDATE, ""
    return SiteKind.ASSIGN, ""


def _step(value: ast.AST, parents: Parents) -> tuple[Use | None, ast.AST]:
    """Return what the holder of *value* does with it, or None and whose value it becomes."""
    holder = parents.of(value)
    if isinstance(holder, ast.Subscript):
        return _through_subscript(value, holder)
    if isinstance(holder, ast.Attribute):
        return _through_attribute(holder, parents)
    if isinstance(holder, (ast.Call, ast.keyword)):
        return _through_call(value, holder, parents)
    if isinstance(holder, ast.IfExp) and holder.test is value:
        return (SiteKind.READ, "a condition"), holder
    if isinstance(holder, ast.UnaryOp) and isinstance(holder.op, ast.Not):
        return (SiteKind.READ, "a condition"), holder
    if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Mod) and _is_text(holder.left):
        return (SiteKind.READ, "a string"), holder
    if isinstance(holder, _TRANSPARENT):
        return None, holder
    return _at_the_end(value, holder), holder


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def _through_subscript(value: ast.AST, holder: ast.Subscript) -> tuple[Use | None, ast.AST]:
    if holder.value is not value:
        return (SiteKind.READ, "an index"), holder
    if not isinstance(holder.ctx, ast.Load):
        return (SiteKind.UPDATE, "[...]"), holder
    if _has_indices(value) and isinstance(holder.slice, ast.Constant) and holder.slice.value == 1:
        return (SiteKind.READ, "indices"), holder
    return None, holder


def _has_indices(value: ast.AST) -> bool:
    return isinstance(value, ast.Call) and (
        isinstance(value.func, ast.Attribute) and value.func.attr in WITH_INDICES
    )


def _through_attribute(holder: ast.Attribute, parents: Parents) -> tuple[Use | None, ast.AST]:
    call = parents.of(holder)
    is_called = isinstance(call, ast.Call) and call.func is holder
    name = holder.attr
    if is_called and (name in WRITING_DUNDERS or _is_in_place(name)):
        return (SiteKind.CARRY if name in NO_WRITE else SiteKind.UPDATE, f".{name}"), holder
    if name == "numpy" and is_called:
        written = _written_array(call, parents)
        if written:
            return (SiteKind.UPDATE, written), holder
    if name in LOOKS and isinstance(holder.ctx, ast.Load):
        return (SiteKind.READ, f".{name}"), holder
    if not isinstance(holder.ctx, ast.Load):
        # ``x.data.grad = y`` sets it on a tensor that nobody else has.
        return (SiteKind.CARRY if name == "requires_grad" else SiteKind.READ, f".{name}"), holder
    return None, call if is_called else holder


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _written_array(array: ast.AST, parents: Parents) -> str:
    """Return how ``x.data.numpy()`` is written on the spot, which no version counter sees."""
    beyond = parents.of(array)
    while isinstance(beyond, ast.Subscript) and beyond.value is array:
        if not isinstance(beyond.ctx, ast.Load):
            return ".numpy()[...]"
        array, beyond = beyond, parents.of(beyond)
    if isinstance(beyond, ast.Attribute) and beyond.attr in WRITING_ARRAY_METHODS:
        return f".numpy().{beyond.attr}"
    if isinstance(beyond, ast.keyword) and beyond.arg == "out":
        return "out=.numpy()"
    return ""


def _through_call(
    value: ast.AST, holder: ast.Call | ast.keyword, parents: Parents
) -> tuple[Use | None, ast.AST]:
    if isinstance(holder, ast.keyword):
        call = parents.of(holder)
        if holder.arg == "out":
            return (SiteKind.UPDATE, "out="), call
    else:
        call = holder
    if not isinstance(call, ast.Call):  # ``class A(metaclass=x.data)``
        return (SiteKind.CARRY, ""), call
    if call.func is value:
        return (SiteKind.CARRY, ""), call
    text = _short(call.func)
    base, _, name = text.rpartition(".")
    if name in PASSING_FUNCTIONS and not base:
        return None, call
    if name in LOOKING_FUNCTIONS or name in COPYING_METHODS:
        return (SiteKind.READ, text), call
    if base in LOOKING_MODULES or base.split(".", 1)[0] in LOOKING_MODULES:
        return (SiteKind.READ, text), call
    if _is_first(value, call) and _writes_argument(base, name, call):
        return (SiteKind.UPDATE, text), call
    if isinstance(call.func, ast.Attribute) and _is_in_place(name) and _ends_in_data(call.func):
        # ``w.data.sub_(lr * w.grad.data)``: it ends up in a storage, not in a graph.
        return (SiteKind.READ, text), call
    if any(keyword.arg == "out" and _ends_in_data(keyword.value) for keyword in call.keywords):
        return (SiteKind.READ, text), call
    return (None if _torch_function(call) else (SiteKind.CARRY, text)), call


def _is_first(value: ast.AST, call: ast.Call) -> bool:
    if call.args:
        return call.args[0] is value
    return any(keyword.value is value for keyword in call.keywords[:1])


def _writes_argument(base: str, name: str, call: ast.Call) -> bool:
    """``init.normal_(x)``, ``torch.relu_(x)``, ``F.relu(x, inplace=True)``."""
    last = base.rpartition(".")[2]
    if last.endswith("init"):
        return not name.startswith("_")
    if _is_in_place(name) and (not base or last in TORCH):
        return True
    return any(
        keyword.arg == "inplace"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in call.keywords
    )


def _torch_function(node: ast.AST) -> str:
    """Return the name of the function of torch that *node* calls, else an empty string."""
    if not isinstance(node, ast.Call):
        return ""
    text = _short(node.func)
    return text if text.partition(".")[0] in TORCH and "." in text else ""


def _at_the_end(value: ast.AST, holder: ast.AST) -> Use:
    if isinstance(holder, (ast.JoinedStr, ast.FormattedValue)):
        return SiteKind.READ, "an f-string"
    if isinstance(holder, ast.Compare):
        return SiteKind.READ, "a comparison"
    if isinstance(holder, (ast.Expr, ast.If, ast.While, ast.Assert, ast.Raise, ast.Delete)):
        return SiteKind.READ, ""
    if isinstance(holder, (ast.Return, ast.Lambda)):
        return SiteKind.CARRY, "return"
    if isinstance(holder, (ast.Yield, ast.YieldFrom)):
        return SiteKind.CARRY, "yield"
    if isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)):
        is_condition = isinstance(holder, ast.comprehension) and holder.iter is not value
        return (SiteKind.READ, "a condition") if is_condition else (SiteKind.CARRY, "for")
    if isinstance(holder, ast.Assign):
        return _assigned(value, holder.targets)
    if isinstance(holder, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        return _assigned(value, [holder.target])
    return SiteKind.CARRY, ""


def _assigned(value: ast.AST, targets: list[ast.expr]) -> Use:
    names = ", ".join(filter(None, map(_short, _leaves(targets[0]))))
    if all(_ends_in_data(leaf) for target in targets for leaf in _leaves(target)):
        # ``w.data = w.data - lr * g``: the value ends up in a storage, not in a graph.
        return SiteKind.READ, names
    first = next(iter(_leaves(targets[0])), None)
    if (
        isinstance(targets[0], ast.Tuple)
        and isinstance(first, ast.Name)
        and first.id == "_"
        and _has_indices(value)
    ):
        # ``_, predicted = torch.max(out.data, 1)``
        return SiteKind.READ, "indices"
    return SiteKind.CARRY, names


def _leaves(target: ast.expr) -> list[ast.expr]:
    """Return what ``a, (b, *c)`` assigns to: a, b and c."""
    leaves, stack = [], [target]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Tuple, ast.List)):
            stack += reversed(node.elts)
        elif isinstance(node, ast.Starred):
            stack.append(node.value)
        else:
            leaves.append(node)
    return leaves


def _ends_in_data(node: ast.expr) -> bool:
    """``x.data``, ``x.data[i]``, ``x.data.view(-1).add_``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Attribute) and node.attr == "data":
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def _short(node: ast.AST) -> str:
    """Return *node* as text if it is a short chain of names, else its last name."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            node = node.func
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))
