"""Places in the source where a value leaves the graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ipy_autogradwatch.rules._source import Program, Statement, dotted

_METHODS = {
    "detach": "`.detach()` returns a tensor without the graph",
    "detach_": "`.detach_()` takes the tensor out of its graph",
    "item": "`.item()` returns a Python number, which has no graph",
    "tolist": "`.tolist()` returns Python numbers, which have no graph",
    "numpy": "numpy arrays have no graph",
    "argmax": "`argmax` returns indices, which have no derivative",
    "argmin": "`argmin` returns indices, which have no derivative",
    "long": "integers have no derivative",
    "int": "integers have no derivative",
    "bool": "booleans have no derivative",
    "byte": "integers have no derivative",
    "short": "integers have no derivative",
    "argsort": "`argsort` returns indices, which have no derivative",
    "bucketize": "`bucketize` returns indices, which have no derivative",
    "searchsorted": "`searchsorted` returns indices, which have no derivative",
    "one_hot": "`one_hot` returns integers, which have no derivative",
    "multinomial": "`multinomial` returns indices, which have no derivative",
    "new_tensor": "`new_tensor` copies values into a new tensor, without their graph",
    "sample": "`.sample()` has no graph; `.rsample()` has, where it exists",
}
_COPIES = (
    "tensor",
    "as_tensor",
    "Tensor",
    "FloatTensor",
    "DoubleTensor",
    "LongTensor",
    "scalar_tensor",
    "from_numpy",
    "asarray",
    "linspace",
    "arange",
    "full",
    "Parameter",
)
_COMPOUND = (
    ast.With,
    ast.AsyncWith,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.Try,
)
_NUMBERS = ("float", "int", "bool", "round")
_FLOATS = ("float", "double", "half", "to", "type")
_INTEGERS = re.compile(r"\btorch\.(u?int\d*|long|short|bool|(Long|Int|Short|Byte|Bool)Tensor)\b")
_INSTEAD = {
    "item": "leave .item() out",
    "detach": "leave .detach() out",
    "data": "leave .data out",
    "tensor": "torch.stack([...]) keeps the graph",
    "as_tensor": "torch.stack([...]) keeps the graph",
}


@dataclass(frozen=True, slots=True)
class Cut:
    """One such place.

    Attributes:
        statement: Where.
        node: The expression, or None for a block such as ``with torch.no_grad():``.
        line: Line of the block's header, or of the statement.
        text: What it is, as the user wrote it.
        why: One sentence.
        instead: What to type, or an empty string.
    """

    statement: Statement
    node: ast.AST | None
    line: int
    text: str
    why: str
    instead: str = ""


def switched_off(program: Program) -> Cut | None:
    """Return where gradients were switched off for good, the latest such place in the source."""
    for statement in program.newest_first():
        if isinstance(statement.node, _COMPOUND):
            continue  # ``with torch.set_grad_enabled(flag):`` ends with its block.
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Call) and _switches_off(node):
                return Cut(
                    statement,
                    node,
                    statement.line,
                    ast.unparse(node),
                    "Gradients are off from here on, in later cells too.",
                    "torch.set_grad_enabled(True); and `with torch.no_grad():` for a block",
                )
    return None


def _switches_off(call: ast.Call) -> bool:
    name = dotted(call.func).split(".")[-1]
    if name == "set_grad_enabled":
        given = call.args[0] if call.args else None
        return not (isinstance(given, ast.Constant) and given.value is True)
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("__enter__", "enter_context"):
        return bool(re.search(r"\b(no_grad|inference_mode)\(", ast.unparse(call)))
    return False


def cuts_in(statement: Statement) -> Iterator[Cut]:
    """Yield the places in *statement* where a value leaves the graph, innermost last."""
    if statement.under and isinstance(
        statement.node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
    ):
        yield Cut(
            statement,
            None,
            statement.under[-1],
            "with torch.no_grad()",
            "Nothing is recorded in this block.",
            f"take `{_brief(statement)}` out of the block",
        )
    for node in ast.walk(statement.node):
        cut = _cut(node)
        if cut is not None:
            name, why = cut
            yield Cut(
                statement, node, statement.line, ast.unparse(node), why, _INSTEAD.get(name, "")
            )


def _brief(statement: Statement) -> str:
    text = ast.unparse(statement.node).partition("\n")[0]
    return text if len(text) <= 50 else text[:49] + "…"


def _cut(node: ast.AST) -> tuple[str, str] | None:
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        return "data", "`.data` returns a tensor without the graph."
    if not isinstance(node, ast.Call):
        return None
    name = dotted(node.func)
    last = node.func.attr if isinstance(node.func, ast.Attribute) else name
    root = name.partition(".")[0]
    if isinstance(node.func, ast.Attribute) and last in _METHODS:
        return last, _METHODS[last] + "."
    if isinstance(node.func, ast.Attribute) and last in _FLOATS:
        if isinstance(node.func.value, ast.Compare):
            return "compare", "A comparison has no derivative."
        if any(_INTEGERS.fullmatch(dotted(argument)) for argument in node.args):
            return last, "Integers have no derivative."
    if root in ("math", "np", "numpy", "scipy"):
        return last, f"`{name}` returns a Python or numpy number, which has no graph."
    if name in _NUMBERS:
        return last, f"`{name}()` returns a Python number, which has no graph."
    if last in _COPIES and root in ("torch", "nn", last) and node.args:
        return last, f"`{name}` copies values into a new tensor, without their graph."
    return None
