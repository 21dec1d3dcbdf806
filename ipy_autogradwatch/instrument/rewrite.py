"""Put the probes in: assignments to fields of nodes, which cannot fail."""

from __future__ import annotations

import ast
from typing import Any

from ipy_autogradwatch.instrument.places import ROOT_KEYWORDS, Place
from ipy_autogradwatch.model import PROBE_NAME, Part, Site, SiteKind


def insert_probes(described: list[tuple[Place, Site]]) -> None:
    """Put probes around the expressions of each place.

    Every new node gets the position of the expression it stands around.
    """
    # Outermost places come first. Inserting innermost first keeps each place's parent the
    # node that it was when found.
    for place, site in reversed(described):
        constant = site.to_constant()
        if isinstance(place.node, ast.Attribute):
            _probe_attribute(place, place.node, constant)
        else:
            _probe_call(place, place.node, constant)
    classes = {id(c): c for c in (place.class_body for place, _ in described) if c is not None}
    for definition in classes.values():
        _look_past(definition)


def _look_past(definition: ast.ClassDef) -> None:
    """Let the body of a class find the probe without asking the namespace of the class.

    That may be anybody's mapping (``__prepare__``), which counts what it is asked for, or
    has an answer to everything.
    """
    # ``global`` is no code, so nothing else changes. A docstring has to stay the first.
    first = definition.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    definition.body.insert(int(has_docstring), ast.Global([PROBE_NAME], **_position(first)))


def _probe_attribute(place: Place, node: ast.Attribute, site: tuple[object, ...]) -> None:
    if place.kind is SiteKind.BACKWARD:
        node.value = _probe(node.value, site, Part.ROOT)
        call = place.parent
        if isinstance(call, ast.Call) and call.args and not isinstance(call.args[0], ast.Starred):
            call.args[0] = _probe(call.args[0], site, Part.ARGUMENT)
    elif place.kind is SiteKind.LEAF:
        node.value = _probe(node.value, site, Part.LEAF)
    else:
        node.value = _probe(node.value, site, Part.RECEIVER)
        if place.assignment is not None and place.assignment.value is not None:
            place.assignment.value = _probe(place.assignment.value, site, Part.VALUE)
        if isinstance(node.ctx, ast.Load):
            _replace(place, _probe(node, site, Part.ALIAS))


def _probe_call(place: Place, node: ast.Call, site: tuple[object, ...]) -> None:
    if place.kind is SiteKind.LEAF:
        _replace(place, _probe(node, site, Part.LEAF))
    elif place.kind is SiteKind.BACKWARD:
        if node.args:
            node.args[0] = _probe(node.args[0], site, Part.ROOT)
        else:
            keyword = next(k for k in node.keywords if k.arg in ROOT_KEYWORDS)
            keyword.value = _probe(keyword.value, site, Part.ROOT)
        if isinstance(node.func, ast.Name):
            node.func = _probe(node.func, site, Part.FUNCTION)
    else:
        node.args[0] = _probe(node.args[0], site, Part.RECEIVER)
        if place.kind is SiteKind.ASSIGN:
            node.args[2] = _probe(node.args[2], site, Part.VALUE)
        elif place.kind is not SiteKind.DELETE:
            _replace(place, _probe(node, site, Part.ALIAS))


def _probe(around: ast.expr, site: tuple[object, ...], part: Part) -> ast.Call:
    start, end = _position(around), _position_of_last(around)
    arguments: list[ast.expr] = [around, ast.Constant(site, **end)]  # type: ignore[arg-type]
    if part is not Part.RECEIVER:
        arguments.append(ast.Constant(int(part), **end))
    return ast.Call(ast.Name(PROBE_NAME, ast.Load(), **start), arguments, [], **end)


def _position_of_last(node: ast.expr) -> dict[str, Any]:
    """Return the position of what *node* does last.

    In a chain over several lines that is the line of its last word. A debugger steps
    through the probe without going back to the first.
    """
    last = node.func if isinstance(node, ast.Call) else node
    here = _position(last if isinstance(last, ast.Attribute) else node)
    if isinstance(last, ast.Attribute) and here and here["lineno"] != here["end_lineno"]:
        here["lineno"] = here["end_lineno"]
        here["col_offset"] = here["end_col_offset"] - len(last.attr.encode())
    return here


def _position(node: ast.expr | ast.stmt) -> dict[str, Any]:
    if not hasattr(node, "lineno"):
        return {}  # Another transformer's, which leaves this to IPython.
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def _replace(place: Place, new: ast.expr) -> None:
    """Put *new* where the node of *place* stands."""
    if place.index is None:
        setattr(place.parent, place.field, new)
    else:
        getattr(place.parent, place.field)[place.index] = new
