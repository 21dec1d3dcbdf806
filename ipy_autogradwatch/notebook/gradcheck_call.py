"""``%gradcheck f(x, y)``: take the call apart, check it, and put the result into words."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.fence import attempt
from ipy_autogradwatch.observe.probe import imported_torch

_EXAMPLE = "as in: %gradcheck f(x, weight=w)"


def check_call(shell: InteractiveShell, line: str) -> str:
    """Check the gradients of the call written in *line*, and return the result as text.

    Function and arguments are evaluated once, as written. The function is then called many
    times, as finite differences need.

    Raises:
        UsageError: *line* is no call, or nothing in it is a tensor.
    """
    __tracebackhide__ = True
    if not line.strip():
        raise UsageError(f"%gradcheck wants a call, {_EXAMPLE} (or use it as %%gradcheck)")
    if imported_torch() is None:
        raise UsageError("%gradcheck: torch is not imported in this notebook: import torch")
    line = line.strip()
    call = _parse(line)
    function, arguments, keywords = _evaluate(shell, call, line)
    from ipy_autogradwatch.observe.call_check import NothingToCheck, check_gradients, is_tensor

    names = _names(function, call, len(arguments))
    owner = getattr(function, "__self__", None)
    if isinstance(call.func, ast.Attribute) and is_tensor(owner):
        # ``x.sin()``: x is an input as well.
        names = (ast.unparse(call.func.value), *names)
        arguments = (owner, *arguments)
        function = getattr(type(owner), call.func.attr)
    try:
        result = check_gradients(function, arguments, keywords, names)
    except NothingToCheck as error:
        raise UsageError(f"%gradcheck: {error}; {_EXAMPLE}") from None
    return f"%gradcheck {ast.unparse(call)}\n" + "\n".join(f"  {line}" for line in result.lines())


def _parse(line: str) -> ast.Call:
    try:
        expression = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"%gradcheck: {error.msg} in {line!r}; {_EXAMPLE}") from None
    if not isinstance(expression, ast.Call):
        raise UsageError(f"%gradcheck wants a call, not {line!r}; {_EXAMPLE}")
    return expression


def _evaluate(
    shell: InteractiveShell, call: ast.Call, line: str
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Evaluate the parts of *call*, in Python's order: function, then arguments."""
    __tracebackhide__ = True

    def parts(function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        return function, arguments, keywords

    name = "__autogradwatch_parts__"
    taken_apart = ast.Call(ast.Name(name, ast.Load()), [call.func, *call.args], call.keywords)
    tree = ast.fix_missing_locations(ast.Expression(ast.copy_location(taken_apart, call)))
    scope = {**shell.user_ns, name: parts}
    found: tuple[Any, tuple[Any, ...], dict[str, Any]]
    compiler: Any = shell.compile
    file = compiler.cache(line, shell.displayhook.prompt_count)  # For a traceback.
    found = eval(compile(tree, file, "eval"), scope)
    return found


def _names(function: Any, call: ast.Call, count: int) -> tuple[str, ...]:
    """Return what each positional argument is called: its text if short, or the parameter."""
    parameters = attempt(lambda: list(inspect.signature(function).parameters), [])
    texts = [ast.unparse(argument) for argument in call.args]
    taken = {keyword.arg for keyword in call.keywords}
    names: list[str] = []
    for index in range(count):
        name = texts[index] if len(texts) == count else "*"  # With *arguments there is no text.
        parameter = parameters[index] if index < len(parameters) else f"argument {index + 1}"
        is_plain = re.fullmatch(r"[\w.]{1,30}", name) is not None
        names.append(name if is_plain and name not in taken else parameter)
    return tuple(names)
