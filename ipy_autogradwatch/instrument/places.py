"""Find the places in a syntax tree that get a probe.

Iterative throughout: CPython compiles a sum of 900 terms, on which a recursive visitor
dies.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ipy_autogradwatch.instrument.data_use import Parents, use_of
from ipy_autogradwatch.model import SiteKind

# Sub-trees that must not be touched. Annotations become text under ``from __future__
# import annotations``, probes included; patterns allow names and attributes only.
_LEFT_ALONE = {
    "arg": ("annotation",),
    "AnnAssign": ("annotation",),
    "FunctionDef": ("returns", "type_params"),
    "AsyncFunctionDef": ("returns", "type_params"),
    "ClassDef": ("type_params",),
    "match_case": ("pattern",),
    "TypeAlias": ("name", "type_params", "value"),
}
# Shared by the whole tree, or of no interest.
_NO_CHILDREN = ("ctx", "op", "ops", "type_ignores", "type_comment")

# Decorators that hand the body to another compiler, to which the probe is an unknown name.
_COMPILED = frozenset(
    [
        "cfunc",
        "generated_jit",
        "guvectorize",
        "intrinsic",
        "jit",
        "jitclass",
        "njit",
        "overload",
        "overload_attribute",
        "overload_method",
        "pjit",
        "register_jitable",
        "stencil",
        "vectorize",
    ]
)
_NUMPY = frozenset({"np", "numpy"})
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

# Each probe makes the tree deeper, and there is a depth that Python does not compile.
_MAX_NESTED = 20

_ATTRIBUTE_FUNCTIONS = {"getattr": 2, "setattr": 3, "delattr": 2}
ROOT_KEYWORDS = frozenset({"outputs", "tensors"})


@dataclass(slots=True)
class Place:
    """Where probes go, in terms of the tree: the node at stake and what is around it.

    Attributes:
        node: An Attribute (``x.data``, ``loss.backward``), or the Call of ``getattr``,
            ``autograd.grad``, ``Parameter``.
        receiver: The expression whose value the probe sees first.
        statement: The statement that holds it.
        assignment: The statement ``x.data = value``, when its value gets a probe too.
        name: The constant ``"data"`` of ``getattr(x, "data")``.
        class_body: The class whose body, itself and not a method, holds the place.
        field: Where *parent* has *node*.
        index: Where in that field, if it is a list.
    """

    kind: SiteKind
    node: ast.Attribute | ast.Call
    receiver: ast.expr
    statement: ast.stmt | None
    parent: ast.AST
    consumer: str = ""
    assignment: ast.Assign | ast.AnnAssign | None = None
    name: ast.expr | None = None
    class_body: ast.ClassDef | None = None
    field: str = ""
    index: int | None = None


_Step = tuple[ast.AST, "ast.stmt | None", str, "int | None", int]
"""A node to look at, its statement, where its parent has it, how many places it is in."""


def find_places(tree: ast.Module) -> list[Place]:
    """Return the places of *tree* that get a probe, each before those inside it."""
    places: list[Place] = []
    parents = Parents()
    stack: list[_Step] = [(tree, None, "", None, 0)]
    while stack:
        node, statement, field, index, nested = stack.pop()
        if isinstance(node, (ast.Attribute, ast.Call)) and nested < _MAX_NESTED:
            if isinstance(node, ast.Attribute):
                place = _attribute_place(node, statement, parents)
            else:
                place = _call_place(node, statement, parents)
            if place is not None:
                nested += 1
                place.class_body = _class_around(statement, parents)
                place.field, place.index = field, index
                places.append(place)
        elif isinstance(node, ast.stmt):
            statement = node
            if isinstance(node, _DEFINITIONS) and any(map(_compiles, node.decorator_list)):
                continue
        _push_children(stack, node, statement, nested, parents)
    return places


def _push_children(
    stack: list[_Step], node: ast.AST, statement: ast.stmt | None, nested: int, parents: Parents
) -> None:
    for field in _child_fields(type(node)):
        value = getattr(node, field, None)
        if isinstance(value, list):
            for index in range(len(value) - 1, -1, -1):
                child = value[index]
                if isinstance(child, ast.AST) and _child_fields(type(child)):
                    parents.note(child, node)
                    stack.append((child, statement, field, index, nested))
        elif isinstance(value, ast.AST) and _child_fields(type(value)):
            parents.note(value, node)
            stack.append((value, statement, field, None, nested))


def _child_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a *kind* of node that are walked; last first, for a stack."""
    known = _fields.get(kind)
    if known is None:
        names: tuple[str, ...] = getattr(kind, "_fields", ())
        if issubclass(kind, (ast.Name, ast.Constant)):
            names = ()
        left_alone = _LEFT_ALONE.get(kind.__name__, ()) + _NO_CHILDREN
        known = _fields[kind] = tuple(name for name in reversed(names) if name not in left_alone)
    return known


_fields: dict[type, tuple[str, ...]] = {}


def _class_around(statement: ast.stmt | None, parents: Parents) -> ast.ClassDef | None:
    """Return the class in whose own scope *statement* stands, if any."""
    node: ast.AST | None = statement
    while node is not None:
        node = parents.get(node)
        if isinstance(node, ast.ClassDef):
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
    return None


def _compiles(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    base, _, name = dotted_name(function).rpartition(".")
    return name in _COMPILED and base not in _NUMPY


def dotted_name(node: ast.AST) -> str:
    """Return ``torch.nn.init`` for the chain of attributes it is, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _attribute_place(
    node: ast.Attribute, statement: ast.stmt | None, parents: Parents
) -> Place | None:
    parent = parents.of(node)
    if node.attr == "data":
        # ``torch.utils.data`` is a module, and by far the most common ``.data`` of all.
        if dotted_name(node.value).endswith("torch.utils"):
            return None
        # ``x.data: int`` evaluates x and reads no attribute.
        if isinstance(parent, ast.AnnAssign) and parent.value is None:
            return None
        kind, consumer = use_of(node, parents)
        return Place(
            kind, node, node.value, statement, parent, consumer, _plain_assignment(node, parent)
        )
    if node.attr == "backward" and isinstance(parent, ast.Call) and parent.func is node:
        if _ends_with_autograd(node.value):
            return None  # The call itself is the place: its roots are arguments.
        return Place(SiteKind.BACKWARD, node, node.value, statement, parent, "backward")
    if node.attr == "requires_grad" and isinstance(node.ctx, ast.Store):
        if isinstance(parent, ast.AnnAssign) and parent.value is None:
            return None
        return Place(SiteKind.LEAF, node, node.value, statement, parent)
    return None


def _plain_assignment(node: ast.Attribute, parent: ast.AST) -> ast.Assign | ast.AnnAssign | None:
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and parent.targets[0] is node:
        return parent
    if isinstance(parent, ast.AnnAssign) and parent.target is node:
        return parent
    return None


def _call_place(node: ast.Call, statement: ast.stmt | None, parents: Parents) -> Place | None:
    name = dotted_name(node.func)
    parent = parents.of(node)
    if _is_data_function(node, name):
        kind = {"setattr": SiteKind.ASSIGN, "delattr": SiteKind.DELETE}.get(name)
        consumer = name if name == "setattr" else ""
        if kind is None:
            kind, consumer = use_of(node, parents)
        return Place(kind, node, node.args[0], statement, parent, consumer, name=node.args[1])
    last = name.rpartition(".")[2]
    if last in ("grad", "backward") and (
        name == last
        or (isinstance(node.func, ast.Attribute) and _ends_with_autograd(node.func.value))
    ):
        roots = _roots_argument(node)
        if roots is not None:
            return Place(SiteKind.BACKWARD, node, roots, statement, parent, last)
    if _makes_a_leaf(node, last):
        return Place(SiteKind.LEAF, node, node, statement, parent)
    return None


def _is_data_function(node: ast.Call, name: str) -> bool:
    """``getattr(x, "data")`` and its like, with a constant name and no surprises."""
    wanted = _ATTRIBUTE_FUNCTIONS.get(name)
    if wanted is None or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        return False
    if len(node.args) != wanted and not (name == "getattr" and len(node.args) == 3):
        return False
    attribute = node.args[1]
    return isinstance(attribute, ast.Constant) and attribute.value == "data"


def _ends_with_autograd(base: ast.expr) -> bool:
    return dotted_name(base).rpartition(".")[2] == "autograd"


def _roots_argument(node: ast.Call) -> ast.expr | None:
    if node.args:
        return None if isinstance(node.args[0], ast.Starred) else node.args[0]
    for keyword in node.keywords:
        if keyword.arg in ROOT_KEYWORDS:
            return keyword.value
    return None


def _makes_a_leaf(node: ast.Call, last: str) -> bool:
    if last == "Parameter":
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
        return True
    return any(
        keyword.arg == "requires_grad"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in node.keywords
    )
