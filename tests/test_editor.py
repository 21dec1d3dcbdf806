"""Lines and columns are those of the cell as the user sees it in the editor.

From the text of a cell to a tree the way is IPython's own: its TransformerManager, and for
magics that compile a piece of the cell, the shell.
"""

from __future__ import annotations

import ast
import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from ipy_autogradwatch.instrument import instrument
from ipy_autogradwatch.instrument.align import editor_lines
from ipy_autogradwatch.model import Span


def tree_of(cell):
    return ast.parse(TransformerManager().transform_cell(cell))


def sites_of(cell, tree=None):
    """Return the sites of *cell*, whose *tree* may be that of a piece of it."""
    return instrument(tree_of(cell) if tree is None else tree, cell, cell=1)


def editor_text(cell, span):
    """Return what stands at *span* in *cell*: the user's text, by the user's lines."""
    lines = [line.encode() for line in re.split(r"\r\n|\r|\n", cell)]
    if span.line == span.end_line:
        return lines[span.line - 1][span.column : span.end_column].decode()
    parts = lines[span.line - 1 : span.end_line]
    parts[-1] = parts[-1][: span.end_column]
    parts[0] = parts[0][span.column :]
    return b"\n".join(parts).decode()


def seen(cell, tree=None):
    """Return (line, text at the site) of each site of *cell*."""
    sites = sites_of(cell, tree)
    for site in sites:
        lines = re.split(r"\r\n|\r|\n", cell)
        assert site.text == lines[site.span.line - 1].rstrip()
    return [(site.span.line, editor_text(cell, site.span)) for site in sites]


CELLS = {
    "plain": ("x = 1\nx.data\n", [(2, "x.data")]),
    "leading blank lines": ("\n\n  \n\nx.data\ny.data", [(5, "x.data"), (6, "y.data")]),
    "leading comment": ("\n# about\n\nx.data", [(4, "x.data")]),
    "trailing blank lines": ("x.data\n\n\n# end\n\n", [(1, "x.data")]),
    "indented cell": (
        "    x.data\n    if 1:\n        y.data\n",
        [(1, "x.data"), (3, "y.data")],
    ),
    "indented and blank": ("\n\n    x.data\n\n    y.data", [(3, "x.data"), (5, "y.data")]),
    "indented by tabs": ("\tx.data\n\tif 1:\n\t\ty.data", [(1, "x.data"), (3, "y.data")]),
    "tabs inside": ("if 1:\n\tz =\tx.data\t+ y.data", [(2, "x.data"), (2, "y.data")]),
    "python prompts": (
        ">>> for a in b:\n...     a.data\n>>> x.data",
        [(2, "a.data"), (3, "x.data")],
    ),
    "ipython prompts": (
        "In [1]: for a in b:\n   ...:     a.data\n   ...: x.data",
        [(2, "a.data"), (3, "x.data")],
    ),
    "non-ASCII before it": ("é = '日本語'; 变量.data; y.data", [(1, "变量.data"), (1, "y.data")]),
    "non-ASCII above it": ("# 注释\nπ = 'ü'\nπ.data", [(3, "π.data")]),
    "over lines": ("(x\n  .data\n  .view(1)\n  .data)", [(4, "data"), (2, "data")]),
    "over lines with a backslash": ("x \\\n  .data \\\n  .sum()", [(2, "data")]),
    "over lines and indented": ("  (x\n     .data)\n  y.data", [(2, "data"), (3, "y.data")]),
    "call over lines": ("f(\n  x,\n).data", [(3, "data")]),
    "argument over lines": ("print(\n    x.data,\n    y.data)", [(2, "x.data"), (3, "y.data")]),
    "getattr over lines": ("getattr(\n  x,\n  'data')", [(3, "'data'")]),
    "getattr": ("z = getattr(x, 'data')", [(1, "getattr(x, 'data')")]),
    "line magic above": ("%matplotlib inline\nx.data", [(2, "x.data")]),
    "line magics and blank lines": (
        "\n%load_ext a\n\n%config b=1\nx.data\n%c\ny.data",
        [(5, "x.data"), (7, "y.data")],
    ),
    "shell above": ("!pip install data\n!ls x.data\nx.data", [(3, "x.data")]),
    "shell, continued": (
        "!pip \\\n   install \\\n  x.data\nx.data\n!ls\nx.data",
        [(4, "x.data"), (6, "x.data")],
    ),
    "shell, continued, twice": (
        "x.data\n!a \\\n b\ny.data\n%c \\\n d\nif 1:\n    !e \\\n   f\n    w.data",
        [(1, "x.data"), (4, "y.data"), (10, "w.data")],
    ),
    "shell, assigned and continued": (
        "files = !ls \\\n   x\nx.data\nt = %m \\\n  y\ny.data",
        [(3, "x.data"), (6, "y.data")],
    ),
    "what looks like a continued shell line": (
        "text = '''\n!a \\\n%b \\\n'''\nx.data",
        [(5, "x.data")],
    ),
    "assigned magic": ("t = %sql x.data\nt.data", [(2, "t.data")]),
    "help": ("x.data?\nx.data\n?x.data\ny.data", [(2, "x.data"), (4, "y.data")]),
    "autocall": ("/f x.data\ny.data", [(1, "x.data"), (2, "y.data")]),
    "f-string": ("print(f'{x.data} é {y.data:.3f}')", [(1, "x.data"), (1, "y.data")]),
    "f-string, nested": ("f'{x.data:{y.data}.{w.data}}'", [(1, f"{n}.data") for n in "xyw"]),
    "f-string, repeated": ("f'{x.data} {x.data}' f'{x.data}'", [(1, "x.data")] * 3),
    "f-string over lines": (
        "f'''\n{x.data} é {y.data}\n  {w.data}'''",
        [(2, "x.data"), (2, "y.data"), (3, "w.data")],
    ),
    "f-strings in parts": (
        "z = ('a'\n  f'{x.data}'\n  f'{y.data}')",
        [(2, "x.data"), (3, "y.data")],
    ),
    "windows line ends": ("x = 1\r\n\r\nx.data\r\ny.data", [(3, "x.data"), (4, "y.data")]),
    "old line ends": ("x = 1\rx.data", [(2, "x.data")]),
    "form feed": ("x = 1\n\x0c\nx.data", [(3, "x.data")]),
    "separators inside a string": ("s = 'a\u2028b\x0bc\x1cd\x85'\nx.data", [(2, "x.data")]),
    "repeated identical lines": ("x.data\n" * 4, [(n, "x.data") for n in (1, 2, 3, 4)]),
    "repeated after blank lines": ("\n\n" + "x.data\n" * 3, [(n, "x.data") for n in (3, 4, 5)]),
    "one line, several": ("x.data; x.data; y.data", [(1, "x.data")] * 2 + [(1, "y.data")]),
    "parentheses": ("(x + y).data, ((x)).data", [(1, "(x + y).data"), (1, "((x)).data")]),
    "backward": ("\n  loss.backward()", [(2, "loss.backward")]),
    "backward over lines": ("(loss\n  .sum()\n  .backward())", [(3, "backward")]),
}


# IPython itself takes a U+2028 for the end of a line, and says so.
@pytest.mark.filterwarnings("ignore:.make_tokens_by_line")
@pytest.mark.parametrize("name", CELLS)
def test_a_site_stands_where_the_user_sees_it(name):
    cell, expected = CELLS[name]
    assert sorted(seen(cell)) == sorted(expected)


def test_a_site_that_is_one_line_off_would_be_noticed(monkeypatch):
    """A meta-test: the positions above can be wrong."""
    from ipy_autogradwatch.instrument import align

    monkeypatch.setattr(align.Alignment, "_search", lambda self, tree, last: None)
    cell, expected = CELLS["leading blank lines"]
    assert [site.span.line for site in sites_of(cell)] != [line for line, _ in expected]


# Pieces of a cell that a magic compiles.


def pieces(shell, cell):
    """Run *cell* in a *shell*; return the sites of each tree that IPython transformed."""
    found = []

    class Visitor:
        def visit(self, tree):
            found.extend(instrument(tree, cell, cell=1))
            return tree

    visitor = Visitor()
    names = {name: Fake() for name in "xyw"} | {"__autogradwatch__": lambda value, *site: value}
    shell.user_ns.update(names)
    shell.ast_transformers.append(visitor)
    try:
        shell.run_cell(cell).raise_error()
    finally:
        shell.ast_transformers.remove(visitor)
    return [(site.span.line, editor_text(cell, site.span)) for site in found]


class Fake:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __call__(self, *args):
        return self


MAGICS = {
    "%%time": ("%%time\nx.data\ny.data", [(2, "x.data"), (3, "y.data")]),
    "%%time, blank lines": ("\n%%time\n\n\nx.data", [(5, "x.data")]),
    "%%time, comment": ("%%time\n# about\nx.data\n# end", [(3, "x.data")]),
    "%%time, repeated lines": (
        "%%time\nx.data\nx.data\nx.data",
        [(n, "x.data") for n in (2, 3, 4)],
    ),
    "%%time, indented": ("%%time\nif 1:\n    x.data", [(3, "x.data")]),
    "%%capture": ("%%capture\nx.data\ny.data", [(2, "x.data"), (3, "y.data")]),
    "%%capture and %%time": ("%%capture\n%%time\nx.data", [(3, "x.data")]),
    "%time": ("%time x.data", [(1, "x.data")]),
    "%time, below": ("a = 1\n\n%time x.data\nb = 2", [(3, "x.data")]),
    "%time, the same line above": ("x.data\n%time x.data", [(1, "x.data"), (2, "x.data")]),
    "%time, the same line below": ("%time x.data\nx.data", [(1, "x.data"), (2, "x.data")]),
    "%time, indented": (
        "for _ in [1]:\n    %time x.data\n    y.data",
        [(2, "x.data"), (3, "y.data")],
    ),
    "%time, a name that is in the magic's": ("m = e = x\n%time e.data", [(2, "e.data")]),
    "%time in %%time": ("%%time\na = 1\n%time x.data\nx.data", [(3, "x.data"), (4, "x.data")]),
    "%time, non-ASCII": ("é = x\n%time 'é', é.data", [(2, "é.data")]),
    "%timeit": ("%timeit -n 1 -r 1 x.data", [(1, "x.data")]),
    "%timeit, below": ("a = 1\n%timeit -n1 -r1 x.data.sum(y.data)", [(2, "x.data"), (2, "y.data")]),
    "%%timeit": ("%%timeit -n 1 -r 1\nx.data\ny.data", [(2, "x.data"), (3, "y.data")]),
    "%%timeit with set-up": ("%%timeit -n1 -r1 a = x.data\na.data", [(1, "x.data"), (2, "a.data")]),
}


@pytest.mark.parametrize("name", MAGICS)
def test_a_site_in_what_a_magic_compiles_stands_where_the_user_sees_it(shell, capsys, name):
    cell, expected = MAGICS[name]
    assert sorted(set(pieces(shell, cell))) == sorted(set(expected))


# The words.


@pytest.mark.parametrize(
    ("cell", "receiver"),
    [
        ("x.data", "x"),
        ("model.fc[0].weight.data", "model.fc[0].weight"),
        ("(a + b).data", "(a + b)"),
        ("((a)).data", "((a))"),
        ("f(a,  b).data", "f(a,  b)"),
        ("f(a,\n  b).data", "f(a, b)"),
        ("(x\n  .y   # not a.b\n  .data)", "x .y"),
        ("(x.y   # (a.b\n  .data)", "x.y"),
        ("f(  # about\n  a).data", "f(a)"),
        ("a['#'].data", "a['#']"),
        ("a . data", "a"),
        ("getattr(x[0], 'data')", "x[0]"),
        ("setattr(f(a), 'data', y)", "f(a)"),
        ("    é.b.data", "é.b"),
        (">>> x.b.data", "x.b"),
        ("del x.b.data", "x.b"),
        ("f'{x[1].data:.3f}'", "x[1]"),
        ("x" * 200 + ".data", "x" * 119 + "…"),
        ("loss.sum().backward()", "loss.sum()"),
    ],
)
def test_the_receiver_is_in_the_users_spelling(cell, receiver):
    [site] = sites_of(cell)
    assert site.receiver == receiver


def test_each_receiver_of_a_chain_is_its_own():
    assert [site.receiver for site in sites_of("w.grad.data.data")] == ["w.grad.data", "w.grad"]


@pytest.mark.parametrize(
    ("cell", "statement"),
    [
        ("a = x.data  # why", "a = x.data"),
        ("a = 1; b = x.data; c = 2", "b = x.data"),
        ("    a = x.data", "a = x.data"),
        (">>> a = x.data", "a = x.data"),
        ("for p in ps: p.data.zero_()", "p.data.zero_()"),
        ("for p in x.data:\n    pass", "for p in x.data:"),
        ("if 1:\n    a = f(\n        x.data,\n    )", "a = f(\n    x.data,\n)"),
        ("if 1:\n\ta = f(\n\t\tx.data)", "a = f(\n\tx.data)"),
        ("match x.data:\n    case 1: pass\n    case _: pass", "match x.data:"),
        ("match y:\n    case 1 if x.data: pass", "case 1 if x.data: pass"),
        ("try: pass\nexcept x.data: pass", "except x.data: pass"),
        ("@x.data\ndef f(): pass", "@x.data"),
        ("def f(\n  a=x.data,\n): pass", "a=x.data,"),
        ("with x.data as y:\n    pass", "with x.data as y:"),
        ("if (1 and\n    x.data): pass", "x.data): pass"),
        ("class A(x.data): pass", "class A(x.data): pass"),
        ("f(" + "1, " * 300 + "x.data)", None),
    ],
)
def test_the_statement_is_what_the_user_wrote(cell, statement):
    [site] = sites_of(cell)
    if statement is None:
        assert len(site.statement) == 400
        assert site.statement.endswith("…")
    else:
        assert site.statement == statement


def test_long_lines_are_cut_and_the_column_is_kept():
    [site] = sites_of("a" * 1000 + " = x.data")
    assert len(site.text) == 400
    assert site.span == Span(1, 1003, 1, 1009)


def test_cell_number_and_file_are_those_given():
    [site] = instrument(tree_of("x.data"), "x.data", cell=None, file="other.ipynb")
    assert (site.cell, site.file) == (None, "other.ipynb")
    assert dataclasses.astuple(site) == dataclasses.astuple(site.from_constant(site.to_constant()))


def test_a_tree_that_is_from_nowhere_gets_its_own_words():
    """Another transformer wrote it; the cell has no such line."""
    [site] = instrument(ast.parse("f(a).b.data"), "print('hello')", cell=1)
    assert site.receiver in ("f(a).b", "print('hello')"[:6])
    assert site.span.line == 1


def test_only_what_ends_a_line_for_python_ends_a_line():
    assert editor_lines("a\x0cb\u2028c\x85\nd\r\ne\rf") == [
        "a\x0cb\u2028c\x85".encode(),
        b"d",
        b"e",
        b"f",
    ]


# Random cells: known lines, and what IPython makes of them.

_blocks = st.lists(
    st.sampled_from(
        [
            ["x.data"],
            ["y.data = x.data"],
            ["# x.data"],
            [""],
            ["%magic x.data"],
            ["!shell x.data"],
            ["!shell \\", "   x.data \\", "  y.data"],
            ["out = !shell \\", "  x.data"],
            ["if y.data:", "    x.data", "    !ls x.data"],
            ["é = 'x.data'; x.data"],
            ["s = '''", "x.data", "'''"],
            ["(x", "  .data", "  .sum(y.data))"],
            ["print(f'é {x.data}')"],
        ]
    ),
    min_size=1,
    max_size=8,
)


@given(_blocks, st.sampled_from(["", "    ", "\t"]), st.integers(0, 3))
def test_in_any_cell_each_site_has_its_word(blocks, indent, blank):
    lines = [line for block in blocks for line in block]
    # A string literal would have its text changed by an indent, and so not be the same cell.
    indent = "" if any("'''" in line for line in lines) else indent
    cell = "\n" * blank + "\n".join(indent + line if line else line for line in lines)
    try:
        tree = tree_of(cell)
    except SyntaxError:
        return
    sites = instrument(tree, cell, cell=1)
    for site in sites:
        assert editor_text(cell, site.span).endswith("data")
        text = site.text.strip()
        assert not text.startswith(("!", "%", "#", "out ="))
        assert "\\" not in text
    # Each at a place of its own: identical lines are told apart.
    places = [(site.span.line, site.span.column) for site in sites]
    assert len(set(places)) == len(places)
