"""What the source says about a use of ``.data``: looked at, written, or carried on.

Only the source is asked here, and only for what run time does not show: who takes the
value. Whether it was written is seen at run time, by the alias's version counter.
"""

from __future__ import annotations

import ast

from ipy_autogradwatch.model import SiteKind


class Parents:
    """The parent of every node that was walked."""

    def __init__(self) -> None:
        # The nodes live as long as the tree does, so their ids stay theirs.
        self._parent: dict[int, ast.AST] = {}

    def note(self, node: ast.AST, parent: ast.AST) -> None:
        """Remember that *node* stands in *parent*."""
        self._parent[id(node)] = parent

    def of(self, node: ast.AST) -> ast.AST:
        """Return the parent of *node*."""
        return self._parent[id(node)]


# Methods and attributes that tell something about a tensor, or take its values out of torch.
_LOOKS = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "size",
        "dim",
        "numel",
        "nelement",
        "stride",
        "type",
        "dtype",
        "device",
        "layout",
        "shape",
        "ndim",
        "is_cuda",
        "is_sparse",
        "is_contiguous",
        "element_size",
        "storage",
        "untyped_storage",
        "data_ptr",
        "get_device",
        "is_leaf",
        "requires_grad",
        "grad_fn",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "equal",
        "allclose",
        "isclose",
        "isnan",
        "isinf",
        "isfinite",
        "argmax",
        "argmin",
        "any",
        "all",
        "nonzero",
        "new",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "new_tensor",
        "dim_order",
        "names",
        "itemsize",
        "nbytes",
        "__len__",
        "__repr__",
        "__format__",
    ]
)
_LOOKING_FUNCTIONS = frozenset(
    [
        "print",
        "str",
        "repr",
        "format",
        "len",
        "float",
        "int",
        "bool",
        "complex",
        "round",
        "isinstance",
        "type",
        "id",
        "display",
        "pprint",
        "hash",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "numel",
        "is_tensor",
        "allclose",
        "equal",
        "isclose",
        "isnan",
        "isinf",
        "isfinite",
        "argmax",
        "argmin",
    ]
)
_LOOKING_MODULES = frozenset(
    [
        "np",
        "numpy",
        "plt",
        "ax",
        "axes",
        "fig",
        "pyplot",
        "matplotlib",
        "sns",
        "seaborn",
        "pd",
        "pandas",
        "math",
        "json",
        "logging",
        "logger",
        "log",
        "writer",
        "wandb",
        "tqdm",
        "warnings",
        "sklearn",
        "metrics",
        "vutils",
        "torchvision",
        "display",
        "px",
        "go",
        "self.writer",
        "self.logger",
    ]
)
# The argument of one of these is copied or compared; nothing is computed from it in place.
_COPYING_METHODS = frozenset({"copy_", "view_as", "expand_as", "type_as", "reshape_as", "eq", "ne"})
_NO_WRITE = frozenset({"requires_grad_", "retain_grad_", "share_memory_"})

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
_TRANSPARENT_FUNCTIONS = frozenset({"list", "tuple", "dict", "set", "sum", "max", "min", "abs"})


def use_of(node: ast.Attribute | ast.Call, parents: Parents) -> tuple[SiteKind, str]:
    """Return what kind of use the access *node* is, and what takes its value.

    Args:
        node: ``x.data``, or ``getattr(x, "data")``.
        parents: Of the tree that holds it.
    """
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return _stored(node, parents)
    value: ast.AST = node
    while True:
        holder = parents.of(value)
        if isinstance(holder, (ast.Attribute, ast.Subscript)):
            decided, value = _through_access(value, holder, parents)
        elif isinstance(holder, (ast.Call, ast.keyword)):
            decided, value = _through_call(value, holder, parents)
        elif isinstance(holder, _TRANSPARENT):
            decided, value = None, holder
        else:
            return _at_the_end(value, holder)
        if decided is not None:
            return decided


_Decision = tuple[SiteKind, str] | None


def _stored(node: ast.Attribute, parents: Parents) -> tuple[SiteKind, str]:
    if isinstance(node.ctx, ast.Del):
        return SiteKind.DELETE, ""
    if isinstance(parents.of(node), ast.AugAssign):
        # The target of ``x.data += y`` has ctx Store, like that of a plain assignment.
        return SiteKind.UPDATE, ""
    return SiteKind.ASSIGN, ""


def _through_access(
    value: ast.AST, holder: ast.Attribute | ast.Subscript, parents: Parents
) -> tuple[_Decision, ast.AST]:
    if isinstance(holder, ast.Subscript):
        if holder.value is not value:
            return (SiteKind.READ, "an index"), holder
        if not isinstance(holder.ctx, ast.Load):
            return (SiteKind.UPDATE, "[...]"), holder
        return None, holder
    call = parents.of(holder)
    is_called = isinstance(call, ast.Call) and call.func is holder
    name = holder.attr
    if is_called and name.endswith("_") and not name.endswith("__"):
        kind = SiteKind.CARRY if name in _NO_WRITE else SiteKind.UPDATE
        return (kind, f".{name}"), holder
    if name == "numpy" and is_called:
        # ``x.data.numpy()[0] = 1`` writes, and no version counter sees it.
        beyond = parents.of(call)
        if isinstance(beyond, ast.Subscript) and not isinstance(beyond.ctx, ast.Load):
            return (SiteKind.UPDATE, ".numpy()[...]"), holder
    if name in _LOOKS:
        return (SiteKind.READ, f".{name}"), holder
    return None, call if is_called else holder


def _through_call(
    value: ast.AST, holder: ast.Call | ast.keyword, parents: Parents
) -> tuple[_Decision, ast.AST]:
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
    if name in _TRANSPARENT_FUNCTIONS and not base:
        return None, call
    if name in _LOOKING_FUNCTIONS or name in _COPYING_METHODS:
        return (SiteKind.READ, text), call
    if base in _LOOKING_MODULES or base.split(".", 1)[0] in _LOOKING_MODULES:
        return (SiteKind.READ, text), call
    if base.endswith("init") and name.endswith("_"):
        return (SiteKind.UPDATE, text), call
    return (SiteKind.CARRY, text), call


def _at_the_end(value: ast.AST, holder: ast.AST) -> tuple[SiteKind, str]:
    if isinstance(holder, (ast.JoinedStr, ast.FormattedValue)):
        return SiteKind.READ, "an f-string"
    if isinstance(holder, ast.Compare):
        return SiteKind.READ, "a comparison"
    if isinstance(holder, (ast.Expr, ast.If, ast.While, ast.Assert, ast.Raise, ast.Delete)):
        return SiteKind.READ, ""
    if isinstance(holder, ast.Return):
        return SiteKind.CARRY, "return"
    if isinstance(holder, (ast.Assign, ast.AugAssign)):
        targets = holder.targets if isinstance(holder, ast.Assign) else [holder.target]
        if all(map(_writes_data, targets)):
            # ``w.data = w.data - lr * g``: the value ends up in a storage, not in a graph.
            return SiteKind.READ, _short(targets[0])
        return SiteKind.CARRY, _short(targets[0])
    return SiteKind.CARRY, ""


def _writes_data(target: ast.expr) -> bool:
    while isinstance(target, ast.Subscript):
        target = target.value
    return isinstance(target, ast.Attribute) and target.attr == "data"


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
