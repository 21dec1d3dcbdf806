"""An instrumented program is the same program.

Each program here is run twice, plain and instrumented, over objects that log what is done
to them, by which line of the program. The two logs, exceptions, tracebacks and namespaces
must be equal. Needs neither torch nor IPython.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import doctest
import inspect
import linecache
import pickle
import re
import subprocess
import sys
import sysconfig
import textwrap
import time
import traceback
import types
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_autogradwatch.instrument import PROBE_NAME, instrument, may_have_sites
from ipy_autogradwatch.model import Part, SiteKind
from ipy_autogradwatch.observe.probe import Probe

FILE = "<the cell>"


class Thing:
    """Logs every operation, and the line of the program that did it."""

    def __init__(self, log, name):
        self.__dict__.update(_log=log, _name=name)

    def _note(self, operation, *details):
        frame = sys._getframe(2)
        line = frame.f_lineno if frame.f_code.co_filename == FILE else None
        words = [d._name if isinstance(d, Thing) else shown(d) for d in details]
        self._log.append((operation, self._name, *words, line))

    def _made(self, name):
        return Thing(self._log, name)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self._note("get", name)
        if name == "absent":
            raise AttributeError(f"{self._name} has no {name}", name=name, obj=self)
        return self._made(f"{self._name}.{name}")

    def __setattr__(self, name, value):
        self._note("set", name, value)

    def __delattr__(self, name):
        self._note("del", name)

    def __call__(self, *args, **kwargs):
        self._note("call", *args, *kwargs.items())
        return self._made(f"{self._name}()")

    def __getitem__(self, key):
        self._note("getitem", key)
        return self._made(f"{self._name}[]")

    def __setitem__(self, key, value):
        self._note("setitem", key, value)

    def __delitem__(self, key):
        self._note("delitem", key)

    def __iadd__(self, other):
        self._note("iadd", other)
        return self

    def __add__(self, other):
        self._note("add", other)
        return self._made(f"{self._name}+")

    def __eq__(self, other):
        self._note("eq", other)
        return True

    __hash__ = None

    def __lt__(self, other):
        self._note("lt", other)
        return False

    def __bool__(self):
        self._note("bool")
        return True

    def __format__(self, spec):
        self._note("format", spec)
        return "3"

    def __repr__(self):
        return f"<{self._name}>"

    def __iter__(self):
        self._note("iter")
        return iter([self._made(f"{self._name}.0"), self._made(f"{self._name}.1")])

    def __enter__(self):
        self._note("enter")
        return self

    def __exit__(self, *exception):
        self._note("exit", exception[0])

    def __await__(self):
        self._note("await")
        return iter(())

    def __aiter__(self):
        self._note("aiter")
        self.__dict__["_left"] = 2
        return self

    async def __anext__(self):
        self._note("anext")
        self.__dict__["_left"] -= 1
        if self._left < 0:
            raise StopAsyncIteration
        return self._made(f"{self._name}.next")

    async def __aenter__(self):
        self._note("aenter")
        return self

    async def __aexit__(self, *exception):
        self._note("aexit", exception[0])


def shown(value):
    return re.sub(r" at 0x\w+", "", repr(value))


def compiled(source, *, probed):
    tree = ast.parse(source)
    if probed:
        sites = instrument(tree, source, cell=1)
        assert sites, "the program has no site: it tests nothing"
    return compile(tree, FILE, "exec", dont_inherit=True)


def positions(error):
    """Return (line, and on Python >= 3.11 columns) of each frame of the program."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == FILE:
            found.append((frame.f_code.co_name, line))
    if sys.version_info >= (3, 11):
        summary = traceback.TracebackException.from_exception(error).stack
        found += [
            (f.name, f.lineno, f.end_lineno, f.colno, f.end_colno)
            for f in summary
            if f.filename == FILE
        ]
    return found


def described(error):
    if error is None:
        return None
    attributes = {n: shown(getattr(error, n, None)) for n in ("name", "obj", "value", "args")}
    nested = [described(e) for e in (error.__cause__, error.__context__)]
    inner = [described(e) for e in getattr(error, "exceptions", ())]
    notes = getattr(error, "__notes__", None)
    return (type(error).__name__, str(error), attributes, positions(error), nested, inner, notes)


def plain_values(namespace):
    wanted = (int, str, float, list, tuple, dict, type(None), Thing)
    return {
        name: shown(value)
        for name, value in namespace.items()
        if isinstance(value, wanted)
        and name not in ("log", "__builtins__", "__warningregistry__", PROBE_NAME)
    }


def run(code, **extra):
    """Run *code* over things; return all that can be seen of it."""
    log = []
    namespace = {n: Thing(log, n) for n in ("x", "y", "w", "items")}
    # As in a notebook: the name is in the namespace, and hidden from the user there.
    namespace |= {"log": log, "__name__": "cell", "asyncio": asyncio, PROBE_NAME: Probe(), **extra}
    error = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(code, namespace)
        except BaseException as caught:
            error = caught
    told = [(str(w.message), w.lineno, w.filename) for w in warned]
    return {
        "log": log,
        "error": described(error),
        "values": plain_values(namespace),
        "warnings": told,
    }


def same(source, **extra):
    """Check that plain and instrumented *source* do the same; return what they do."""
    source = textwrap.dedent(source).lstrip("\n")
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    plain = run(compiled(source, probed=False), **extra)
    assert run(compiled(source, probed=True), **extra) == plain
    return plain


PROGRAMS = {
    "load": "x.data",
    "store": "x.data = y()",
    "delete": "del x.data",
    "delete several": "del x.data, y.b.data, (w.data[0], items.data)",
    "augmented": "x().data += y()",
    "augmented, every operator": """
        for op in ("+=",):
            x.data += 1
        try:
            x.data @= y.data
        except TypeError as error:
            said = str(error)
        """,
    "subscript load": "x.data[y.data]",
    "subscript store": "x().data[y()] = w()",
    "subscript augmented": "x().data[y()] += w()",
    "subscript slice": "x.data[y.data:w.data, ..., ::2] = items.data[1:]",
    "chained": "x.data.data.data",
    "chained store": "w.grad.data.data = x.data.data",
    "chained call": "w.grad.data.zero_().data.mul_(x.data)",
    "chained assignment": "x.data = y.data = w().data",
    "annotated assignment": "x.data: int = y()",
    "annotation without a value": "x().data: int\ny.data.data: int",
    "f-string": 'text = f"{x.data}"',
    "f-string, equals sign": 'text = f"{x.data=} {y.data = !r}"',
    "f-string, nested format": 'text = f"{x.data:{y.data}.{w.data}}"',
    "f-string, conversion": 'text = f"{x.data!r:>10}{y.data!s}{w.data!a}"',
    "f-string in parts": 'text = ("a" f"{x.data}"\n    "b"\n    rf"\\d{y.data}")',
    "f-string over lines": 'text = f"""\n{x.data}\n  {\n  y.data}"""',
    "list comprehension": "found = [a.data + y.data for a in x.data if a.data for b in a.data]",
    "set comprehension": "found = {str(a.data) for a in x.data}",
    "dict comprehension": "found = {str(a.data): a.data.b for a in x.data}",
    "generator expression": "found = list(a.data for a in x.data)",
    "comprehension target": "found = [1 for x.data in y.data]",
    "comprehension in a class": """
        class A:
            rows = [a.data for a in x.data]
            def f(self): return [a.data for a in y.data]
        found = A().f()
        """,
    "lambda": "f = lambda a=x.data, *b: (a.data, y.data)\nfound = f()",
    "decorators": """
        @x.data
        @y.data(1)
        def f(): pass
        """,
    "class decorators, bases, keywords": """
        @x.data
        class A(x.data and object, metaclass=(x.data and type)):
            pass
        """,
    "default arguments": """
        def f(a, /, b=x.data, *c, d=y.data, **e): return a.data, b, d
        found = f(w)
        """,
    "class body": """
        class A:
            'Its docstring.'
            a = x.data
            x.data = 1
            b: int = y.data
            def method(self): return self, w.data
            class B:
                c = w.data
        doc, found, nested = A.__doc__, sorted(A.__dict__), sorted(A.B.__dict__)
        """,
    "class body in a function": """
        def f(a):
            local = a.data
            class A:
                b = a.data
                c = local.data
            return A.b, A.c
        found = f(x)
        """,
    "name mangling": """
        class A:
            def __init__(self): self.__x = x.data; self.__data = y
            def read(self): return self.__x.data, self.__data.data
        a = A()
        found = a.read(), sorted(vars(a))
        """,
    "zero-argument super": """
        class Base:
            data = x
            def backward(self): return 1
        class A(Base):
            @property
            def data(self): return super().data.data
            def backward(self): return super().backward(), super().data, __class__.__name__
        found = A().data, A().backward()
        """,
    "super without the attribute": """
        class A:
            def f(self): return super().data
        A().f()
        """,
    "match": """
        class Point:
            __match_args__ = ("data", "b")
            data = 1; b = 2
        class names: data = 1
        match x.data, Point().data:
            case [_, names.data] if y.data:
                one = w.data
        match Point():
            case Point(data=names.data, b=2) if y.data: two = 1
        match {"data": 1, 1: 2}:
            case {"data": d, names.data: e, **rest}: three = d, e
        """,
    "walrus": "if (a := x.data) and (b := a.data): found = [c := y.data, c.data]",
    "async": """
        async def f():
            await x.data
            async with x.data as y.data, w.data:
                async for y.data in items.data:
                    pass
            return [a.data async for a in items.data], (await w.data)
        found = asyncio.run(f())
        """,
    "generator": """
        def f():
            got = yield x.data
            got.data = yield from y.data
            return w.data
        g = f()
        found = [next(g), g.send(w)]
        try:
            while True: found.append(next(g))
        except StopIteration as end:
            found.append(end.value)
        """,
    "generator closed and thrown into": """
        def f():
            try:
                yield x.data
            finally:
                y.data
        a, b = f(), f()
        next(a), next(b)
        a.close()
        b.throw(ValueError("v"))
        """,
    "async generator": """
        async def f():
            yield x.data
            yield y.data
        async def g(): return [a.data async for a in f()]
        found = asyncio.run(g())
        """,
    "over lines": """
        found = (x
            .data
            .view(y
                .data,
                w.data)
            .data)
        """,
    "backslash": "found = x \\\n  .data \\\n  .b",
    "with": "with x.data as y.data, w.data as (items.data, items.b): items.data",
    "for": """
        for x.data in y.data:
            w.data
        else:
            items.data
        for a, x.data, *y.data in [(1, 2, 3, 4)]: pass
        for x.data[0] in [1, 2]: pass
        """,
    "tuple targets": "x.data, y().data = w.data, items().data",
    "starred targets": "[x.data, *y.data] = w().data, 2, *items.data",
    "starred arguments": "x(*y.data, *[w.data], **{'a': items.data}, b=x.data)",
    "getattr": "found = getattr(x(), 'data'), getattr(y, 'data', w()), getattr(x, 'b')",
    "getattr with a default that is taken": "found = getattr(1, 'data', y.data)",
    "setattr": "setattr(x(), 'data', y())",
    "delattr": "delattr(x(), 'data')",
    "getattr, shadowed": "getattr = lambda *a: a\nfound = getattr(x, 'data')",
    "getattr, wrong number of arguments": "getattr(x, 'data', y.data, 1)",
    "try": """
        try:
            x.data.absent
        except (AttributeError, x.data) as error:
            said = str(error)
        else:
            y.data
        finally:
            w.data
        """,
    "finally on every way out": """
        def f(n):
            for _ in range(2):
                try:
                    if n == 0: return x.data
                    if n == 1: continue
                    if n == 2: break
                    x.data.absent
                except AttributeError:
                    raise ValueError(y.data._name) from None
                finally:
                    w.data
        found = f(0), f(1), f(2)
        f(3)
        """,
    "global and nonlocal": """
        def f():
            global g
            g = x.data
            n = y
            def h():
                nonlocal n
                n = n.data
                n.data = 1
            h()
            return n
        found = f(), g
        """,
    "future import": """
        'Docstring of the cell.'
        from __future__ import annotations
        found = x.data
        def f(a: x.data = y.data) -> w.data: ...
        text = f.__annotations__
        """,
    "docstrings": """
        def f():
            'Of f.'
            return x.data
        async def g():
            'Of g.'
            await x.data
        class A:
            'Of A.'
            x.data
        class B:
            1
            x.data
        found = f.__doc__, g.__doc__, A.__doc__, B.__doc__
        """,
    "a docstring is all that is left": "class A:\n    'doc' ; a = x.data\nfound = A.__doc__",
    "locals": """
        def f(a):
            b = a.data
            found = sorted(locals())
            return found, [sorted(locals()) for _ in (b.data,)][0]
        found = f(x)
        class A:
            x.data
            names = sorted(locals())
        names = A.names
        """,
    "dir and vars of a class": "class A:\n    a = x.data\nfound = sorted(vars(A))",
    "short circuits": "found = (0 and x.data, 1 or y.data, x.data if 0 else y.data, x.data < 1 < y.data)",
    "comparison chain": "found = x.data < y.data < w.data == items.data",
    "order of a dict": "found = {str(x.data): y.data, **{'a': w.data}, str(items.data): 1}",
    "order of keywords": "x(y.data, a=w.data, *items.data)",
    "conditions": "while x.data.a:\n    if y.data: break\nassert w.data, items.data",
    "assert that fails": "assert not x.data, y.data._name",
    "raise": "raise ValueError(x.data._name) from KeyError(y.data._name)",
    "raise what is no exception": "raise x.data",
    "error in the access": "def f(a):\n    return 1 + a.absent.data\nf(x)",
    "error in .data itself": "def f(a):\n    return (1 + [a.data,\n        (1).data][0])\nf(x)",
    "error in a store": "(1).data = x.data",
    "error in a delete": "del (1).data",
    "error in a augmented store": "'s'.data += x.data",
    "error in the receiver": "(1 / 0).data",
    "error in an undefined receiver": "undefined.data",
    "error in the value": "x.data = undefined",
    "error in a call of it": "x.data(1, *2)",
    "error in a subscript": "[].data[0]\n",
    "error over lines": "(x\n  .data\n  .absent\n  .data)",
    "error in an f-string": "f'{x.data} {(1).data} {y.data}'",
    "error in a comprehension": "[a.data for a in (x, 1)]",
    "error in an unbound local": "def f():\n    a.data\n    a = 1\nf()",
    "backward": "x.backward()\ny().backward(w(), retain_graph=True)\nx.backward(*y.data)\nx.backward",
    "autograd functions": """
        torch = x
        torch.autograd.backward(y(), w())
        torch.autograd.grad(outputs=y(), inputs=w())
        grad = y
        grad(x(), w())
        grad(*x.data)
        """,
    "leaves": """
        a = x.Parameter(y())
        b = x.tensor(y.data, requires_grad=True)
        c = x.b.requires_grad_()
        x().requires_grad = y()
        x.requires_grad: int
        w(requires_grad=True).data
        @x.make(requires_grad=True)
        def f(a=y.make(requires_grad=True)): pass
        with x.make(requires_grad=True) as d: pass
        """,
    "awaited leaf": """
        async def f(): return await x.make(requires_grad=True), await x.data.backward(y)
        found = asyncio.run(f())
        """,
    "lines of the cell in a warning": """
        import warnings
        class A:
            @property
            def data(self):
                warnings.warn("old", DeprecationWarning, stacklevel=2)
                return 1
        A().data
        found = A().data + \\
            A().data
        """,
    "the frame that asks": """
        import sys
        class A:
            def __getattr__(self, name):
                frame = sys._getframe(1)
                return frame.f_code.co_name, frame.f_lineno
        def f(): return A().data
        found = f(), getattr(A(), "data")
        """,
    "lifetime": """
        import weakref
        class A:
            def __init__(self, name): weakref.finalize(self, log.append, name)
            data = property(lambda self: A("inner"))
        def f():
            A("outer").data
            log.append("after")
            a = A("named").data
            log.append("end")
        f()
        """,
}
SINCE = {
    (3, 11): {
        "exception groups": """
            try:
                raise ExceptionGroup("g", [ValueError(x.data._name), KeyError(1)])
            except* (ValueError, x.data and KeyError) as group:
                y.data
            finally:
                w.data
            """,
        "error with notes": """
            try:
                x.data.absent
            except AttributeError as error:
                error.add_note(y.data._name)
                raise
            """,
    },
    (3, 12): {
        "type parameters": """
            found = x.data
            type X[T: x.data] = list[y.data]
            def f[T: (x.data, y.data)](a: T = x.data) -> T: return a.data
            class A[T: x.data](x.data and object):
                a = x.data
                class B[U](x.data and object): b = y.data
            found = f(w), str(X), sorted(vars(A)), sorted(vars(A.B))
            """,
        "nested quotes": 'found = f"{x.data + f"{y.data!r:{"{"}>4}"}"',
    },
    (3, 13): {"type parameter defaults": "def f[T = x.data](a=y.data): return a.data\nf(w)"},
}
for since, programs in SINCE.items():
    if sys.version_info >= since:
        PROGRAMS |= programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_with_and_without_probes(name):
    source = PROGRAMS[name]
    seen = same(source)
    assert seen["log"] or seen["error"] or "found" in seen["values"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_inside_a_function(name):
    body = textwrap.dedent(PROGRAMS[name])
    if "import annotations" in body or '"""' in body:
        pytest.skip("only at the top of a cell")
    lines = ["def outermost():", *("    " + line for line in body.splitlines()), "outermost()"]
    same("\n".join(lines))


@pytest.mark.parametrize("change", ["twice", "late", "position", "lost"])
def test_the_comparison_would_notice_a_probe_that_changes_the_program(change, monkeypatch):
    """A meta-test: the equalities above can fail."""
    from ipy_autogradwatch.instrument import rewrite

    real = rewrite._probe

    def wrong(around, site, part):
        probe = real(around, site, part)
        if change == "twice":
            return ast.copy_location(ast.BoolOp(ast.And(), [around, probe]), around)
        if change == "late" and part is Part.VALUE:
            return ast.copy_location(ast.Lambda(_no_arguments(), probe), around)
        if change == "position" and part is not Part.VALUE:
            around.lineno = around.end_lineno = 1
        if change == "lost":
            return ast.copy_location(ast.Constant(None), around)
        return probe

    monkeypatch.setattr(rewrite, "_probe", wrong)
    source = "y\nx().data = w()\ny().data\ny.data.absent"
    with pytest.raises(AssertionError):
        same(source)


def _no_arguments():
    return ast.arguments([], [], None, [], [], None, [])


@pytest.mark.parametrize("name", [n for n in PROGRAMS if "error" in n or n in ("raise", "try")])
def test_a_traceback_reads_the_same(name):
    source = textwrap.dedent(PROGRAMS[name]).lstrip("\n")
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)

    def text(*, probed):
        log = []
        names = {n: Thing(log, n) for n in "xyw"} | {PROBE_NAME: Probe()}
        try:
            exec(compiled(source, probed=probed), names)
        except BaseException:
            return traceback.format_exc()
        return ""

    assert text(probed=True) == text(probed=False)


def line_events(code):
    """Return the lines in the order in which a debugger would step through them."""
    seen = []

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == FILE:
            seen.append((frame.f_code.co_name, event, frame.f_lineno))
            return tracer
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run(code)
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize("name", ["over lines", "try", "for", "match", "class body", "leaves"])
def test_a_debugger_steps_through_the_same_lines(name):
    source = textwrap.dedent(PROGRAMS[name]).lstrip("\n")
    plain = line_events(compiled(source, probed=False))
    assert line_events(compiled(source, probed=True)) == plain
    assert len(plain) > 3


class Nosy(dict):
    """A class namespace that has an answer to everything, and logs the question."""

    def __init__(self, log):
        self.log = log

    def __missing__(self, name):
        self.log.append(name)
        if name in ("x", "y", "Nosy"):
            raise KeyError(name)
        return 7


@pytest.mark.parametrize(
    "body",
    ["a = x.data; b = c", "'doc'\n    x.data = new\n    class B: d = x.data", "x.data += [y.data]"],
)
def test_the_namespace_of_a_class_is_not_asked_for_the_probe(body):
    source = f"""\
class Meta(type):
    @classmethod
    def __prepare__(meta, name, bases): return Nosy(log)
    def __new__(meta, name, bases, namespace): return namespace
class A(metaclass=Meta):
    {body}
log.append(sorted(A))
"""
    log = same(source, Nosy=Nosy)["log"]
    assert PROBE_NAME not in log
    assert log


UNTOUCHED = {
    "annotations": "def f(a: x.data, *b: x.data, c: x.data = 1) -> x.data: b: x.data = 1",
    "annotation of a target": "a: x.data = 1\nclass A:\n    b: y.data\n(c): w.data",
    "target without a value": "x.data: int",
    "patterns": "match a:\n    case x.data | [y.data, *_] | {w.data: b} | A(c=x.data): pass",
    "torch.utils.data": "torch.utils.data.DataLoader\nimport torch.utils.data as t",
    "numba": """
        @njit
        def a(s): return s.data
        @numba.njit(parallel=True)
        def b(s): return s.data
        @jit
        def c(s, t=x.data):
            def inner(): return s.data
        @numba.vectorize(["f8(f8)"])
        def d(s): return s.data
        @guvectorize([], "()->()")
        def e(s): s.data[0] = 1
        @cuda.jit(device=True)
        def f(s): return s.data
        @jitclass(spec)
        class G:
            def h(self): self.data = getattr(self, "data")
        @other
        @numba.cuda.jit
        def i(s): return s.data
        class J:
            @staticmethod
            @njit
            def k(s): return s.data
        @extending.overload_method(T, "m")
        def l(s): return lambda s: s.data
        """,
    "other names": "getattr(x, name); getattr(x, 'Data'); getattr('data', x); setattr(x, 'data')",
    "starred getattr": "getattr(*a, 'data'); getattr(x, *['data']); getattr(x, name='data')",
    "strings": "'x.data'; {'data': 1}; f(data=1); data = 1; print(f'x.data')",
    "imports": "import a.data; from data import data as data",
    "backward as a value": "x.backward; f(x.backward); x.backward[0]()",
}
if sys.version_info >= (3, 12):
    UNTOUCHED["type parameters"] = (
        "type X[T: x.data] = y.data\ndef f[T: x.data](): ...\nclass A[*T]: ..."
    )


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_must_not_be_touched_is_not(name):
    source = textwrap.dedent(UNTOUCHED[name])
    tree = ast.parse(source)
    before = ast.dump(tree, include_attributes=True)
    assert instrument(tree, source, cell=1) == ()
    assert ast.dump(tree, include_attributes=True) == before


@pytest.mark.parametrize(
    "source",
    [
        "match x.data:\n    case a if y.data: w.data",
        "@np.vectorize\ndef f(a): return a.data, a.data, a.data",
        "@jitter\ndef f(a=x.data): return a.data, y.data",
        "@jit\ndef f(a): a.data\nx.data, y.data, w.data",
        "torch.utils.data.x.data, torch.data, utils.torch.data",
    ],
)
def test_what_stands_next_to_it_is_touched(source):
    assert len(instrument(ast.parse(source), source, cell=1)) == 3


def test_annotations_as_text_do_not_show_the_probe():
    source = "from __future__ import annotations\nx.data = 1\na: x.data = y\ndef f(b: x.data): ..."
    namespace = {PROBE_NAME: Probe(), "x": types.SimpleNamespace(), "y": 1}
    exec(compiled(source, probed=True), namespace)
    assert namespace["f"].__annotations__ == {"b": "x.data"}
    if sys.version_info < (3, 14):
        assert namespace["__annotations__"] == {"a": "x.data"}


def test_every_spelling_tells_the_probe_once_and_in_order():
    told = []

    def probe(value, site, part=0):
        told.append((SiteKind(site[0]), Part(part), value._name))
        return value

    source = (
        "x.data\nx.data = y\nx.data += y\ndel x.data\ngetattr(x, 'data')\nsetattr(x, 'data', y)"
    )
    run(compiled(source, probed=True), **{PROBE_NAME: probe})
    assert told == [
        (SiteKind.READ, Part.RECEIVER, "x"),
        (SiteKind.READ, Part.ALIAS, "x.data"),
        (SiteKind.ASSIGN, Part.VALUE, "y"),
        (SiteKind.ASSIGN, Part.RECEIVER, "x"),
        (SiteKind.UPDATE, Part.RECEIVER, "x"),
        (SiteKind.DELETE, Part.RECEIVER, "x"),
        (SiteKind.READ, Part.RECEIVER, "x"),
        (SiteKind.READ, Part.ALIAS, "x.data"),
        (SiteKind.ASSIGN, Part.RECEIVER, "x"),
        (SiteKind.ASSIGN, Part.VALUE, "y"),
    ]


def test_each_access_of_a_chain_tells_the_probe():
    told = []

    def probe(value, site, part=0):
        told.append((value._name, Part(part)))
        return value

    run(compiled("x.data.data.data = y.data", probed=True), **{PROBE_NAME: probe})
    assert told == [
        ("y", Part.RECEIVER),
        ("y.data", Part.ALIAS),
        ("y.data", Part.VALUE),
        ("x", Part.RECEIVER),
        ("x.data", Part.ALIAS),
        ("x.data", Part.RECEIVER),
        ("x.data.data", Part.ALIAS),
        ("x.data.data", Part.RECEIVER),
    ]


# Size.


def long_programs():
    nested = "(" * 90 + "x" + ".data)" * 90
    return {
        "a sum": "found = " + " + ".join(["x.data"] * 900),
        "nested calls": "found = " + "f(" * 80 + "x.data" + ")" * 80,
        "a chain of parentheses": f"found = {nested}",
        "a chain of accesses": "found = x" + ".data" * 900,
        "a chain of calls": "found = x" + ".data.add_(1)" * 250,
        "a comparison": "found = " + " < ".join(["x.data"] * 900),
        "a condition": "found = " + " or ".join(["x.data"] * 3000),
        "an elif chain": "if x.data: pass\n" + "elif x.data: pass\n" * 900,
        "a list over lines": "found = [\n" + "x.data,\n" * 3000 + "]",
        "a dict": "found = {" + "1: x.data, " * 3000 + "}",
        "a call over lines": "f(\n" + "a(\nx.data),\n" * 250 + ")",
        "a string of strings": "found = f'''" + "{x.data}\n" * 900 + "'''",
    }


@pytest.mark.parametrize("name", long_programs())
def test_what_python_compiles_is_instrumented_without_recursion(name):
    source = long_programs()[name]
    compiled(source, probed=False)
    room = len(inspect.stack()) + 60  # Much less than any of these is deep.
    tree = ast.parse(source)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(room)
    try:
        sites = instrument(tree, source, cell=1)
    finally:
        sys.setrecursionlimit(before)
    # Of a chain, the probes would make the tree too deep to compile.
    wanted = min(20, source.count(".data")) if "chain of" in name else source.count(".data")
    assert len(sites) == wanted
    compile(tree, FILE, "exec")


def test_nine_hundred_parentheses_in_one_another():
    # One by one: the parser nests 200 deep at most.
    source = "\n".join(f"a{n} = {'(' * (n % 150)}x.data{')' * (n % 150)}" for n in range(900))
    assert len(instrument(ast.parse(source), source, cell=1)) == 900


def test_the_time_for_a_cell_grows_with_its_length_only():
    def seconds(lines):
        source = "".join(f"w{n}.data.add_(x{n})\n" for n in range(lines))
        tree = ast.parse(source)
        start = time.process_time()
        sites = instrument(tree, source, cell=1)
        assert len(sites) == lines
        return time.process_time() - start

    assert seconds(10_000) < 40 * max(seconds(1_000), 0.01)


# A function that leaves its cell.


def define(source, name, probe=None, **extra):
    namespace = {"__name__": "__main__", PROBE_NAME: probe or Probe(), **extra}
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    exec(compiled(source, probed=True), namespace)
    return namespace[name]


def test_getsource_returns_what_the_user_wrote():
    source = "def f(a):\n    # why\n    a.data += 1\n    return a.data\n"
    assert inspect.getsource(define(source, "f")) == source


def test_doctests_of_a_probed_function_pass_and_run_its_code():
    source = textwrap.dedent('''\
        def f(a):
            """Return its data.

            >>> import types
            >>> f(types.SimpleNamespace(data=3))
            3
            """
            return a.data
        ''')
    function = define(source, "f")
    [test] = doctest.DocTestFinder().find(function, "f", globs=function.__globals__)
    assert doctest.DocTestRunner(verbose=False).run(test) == doctest.TestResults(0, 2)


RECEIVER = """
import pickle, sys
sys.modules["ipy_autogradwatch"] = None     # as if it were not installed
function = pickle.loads(sys.stdin.buffer.read())
class A: data = 41
print(function(A()), "torch" in sys.modules)
"""


def in_a_fresh_process(payload):
    return subprocess.run(
        [sys.executable, "-c", RECEIVER], input=payload, capture_output=True, check=True, cwd="/"
    ).stdout.decode()


def test_a_function_runs_in_a_process_that_has_not_got_us():
    cloudpickle = pytest.importorskip("cloudpickle")
    source = "def f(a):\n    a.data += 1\n    return a.data\n"
    payload = cloudpickle.dumps(define(source, "f"))
    assert in_a_fresh_process(payload) == "42 False\n"


def test_the_probe_pickles_as_an_identity():
    probe = Probe()
    told = []
    probe.listen(lambda *seen: told.append(seen))
    assert in_a_fresh_process(pickle.dumps(probe)).startswith("<__main__.A object")
    copy = pickle.loads(pickle.dumps(probe))
    assert copy(1), copy(1, ()) == (1, 1)
    assert copy(value=1, site=(), part=3) == 1
    assert told == []


def test_a_cell_may_be_instrumented_twice():
    """Two transformers, or two shells, over one tree: no program is hurt by that."""
    source = "x.data = y.data\nx.data += 1\nclass A:\n    a = x.data"
    tree = ast.parse(source)
    assert instrument(tree, source, cell=1)
    assert instrument(tree, source, cell=1)
    again = run(compile(tree, FILE, "exec"))
    assert again == run(compiled(source, probed=False))


def test_nodes_that_another_transformer_put_in_may_stand_nowhere():
    source = "x.data\ny.data"
    tree = ast.parse(source)
    receiver = ast.Attribute(ast.Name("w", ast.Load()), "data", ast.Load())
    tree.body.insert(1, ast.Expr(receiver))
    tree.body.append(ast.Assign([ast.Attribute(receiver, "b", ast.Store())], ast.Constant(1)))
    class_body = [ast.Expr(ast.Attribute(ast.Name("w", ast.Load()), "data", ast.Load()))]
    tree.body.append(
        ast.ClassDef(
            "A",
            [],
            [],
            class_body,
            [],
            **({"type_params": []} if sys.version_info >= (3, 12) else {}),
        )
    )
    sites = instrument(tree, source, cell=1)
    assert len(sites) >= 4
    log = run(compile(ast.fix_missing_locations(tree), FILE, "exec"))["log"]
    assert [entry[:3] for entry in log[:3]] == [("get", n, "'data'") for n in "xwy"]


def test_a_cell_without_a_site_is_left_as_it_is():
    source = "print(1)\n"
    assert not may_have_sites(source)
    tree = ast.parse(source)
    before = ast.dump(tree, include_attributes=True)
    assert instrument(tree, source, cell=1) == ()
    assert ast.dump(tree, include_attributes=True) == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_site_is_missed_by_the_look_at_the_text(name):
    source = textwrap.dedent(PROGRAMS[name])
    assert may_have_sites(source)


# Random programs.

_names = st.sampled_from(["x", "y", "w"])
_expressions = st.recursive(
    _names,
    lambda inner: st.one_of(
        inner.map(lambda e: f"{e}.data"),
        inner.map(lambda e: f"{e}.grad"),
        inner.map(lambda e: f"{e}()"),
        inner.map(lambda e: f"getattr({e}, 'data')"),
        inner.map(lambda e: f"(lambda a={e}: a.data)()"),
        _names.map(lambda n: f"[a.data for a in {n}.data][0]"),
        _names.map(lambda n: f"str(f'{{{n}.data!r}} {{y.data:{{w.data}}}}')"),
        inner.map(lambda e: f"(a := {e}).data"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} + {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}.add_({p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}.backward({p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"x.Parameter({p[0]}, k={p[1]}, requires_grad=True)"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}]"),
    ),
    max_leaves=8,
)
_targets = st.one_of(
    _names.map(lambda n: f"{n}.data"),
    _names.map(lambda n: f"{n}.grad.data[0]"),
    st.tuples(_names, _names).map(lambda p: f"({p[0]}.data, *{p[1]}.b.data)"),
)
_simple = st.one_of(
    _expressions,
    st.tuples(_targets, _expressions).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(_names, _expressions).map(lambda p: f"{p[0]}.data += {p[1]}"),
    st.tuples(_names, _expressions).map(lambda p: f"setattr({p[0]}, 'data', {p[1]})"),
    _names.map(lambda n: f"del {n}.data"),
    _expressions.map(lambda e: f"{e}.absent"),
)


def _indented(statements):
    return "\n".join("    " + line for s in statements for line in s.splitlines())


_statements = st.recursive(
    _simple,
    lambda inner: st.one_of(
        st.tuples(_expressions, st.lists(inner, min_size=1, max_size=2)).map(
            lambda p: f"if {p[0]}:\n{_indented(p[1])}"
        ),
        st.tuples(_targets, st.lists(inner, min_size=1, max_size=2)).map(
            lambda p: f"for {p[0]} in [(1, 2), (3,)]:\n{_indented(p[1])}"
        ),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda b: (
                f"try:\n{_indented(b)}\nexcept AttributeError:\n    x.data\nfinally:\n    y.data"
            )
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda b: f"class A:\n{_indented(b)}"),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda b: f"def f(a=x.data):\n{_indented(b)}\nf()"
        ),
        st.tuples(_expressions, st.lists(inner, min_size=1, max_size=2)).map(
            lambda p: f"with {p[0]} as w.data:\n{_indented(p[1])}"
        ),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.lists(_statements, min_size=1, max_size=4).map("\n".join))
def test_random_programs_do_the_same_operations_in_the_same_order(source):
    same(f"x.data\n{source}")


# Everybody's programs.

STDLIB = Path(sysconfig.get_path("stdlib"))


def read(path):
    """Return the text of *path* and its tree, or None if this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = path.read_bytes().decode("utf-8")
            return source, ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, OSError):
        return None


def check_compiles(source, tree, *, everywhere=False):
    """Instrument *tree* and compile it; *everywhere* takes each attribute for ``.data``."""
    if everywhere:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                node.attr = "data"
    sites = instrument(tree, source, cell=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(tree, FILE, "exec", dont_inherit=True)
        except SyntaxError:
            # Python's own tests have files that parse and do not compile.
            with pytest.raises(SyntaxError):
                compile(source, FILE, "exec", dont_inherit=True)
    return len(sites)


def test_every_module_at_the_top_of_the_standard_library_compiles():
    found = 0
    for path in sorted(STDLIB.glob("*.py")):
        parsed = read(path)
        if parsed is not None:
            found += check_compiles(*parsed)
    assert found > 50


@pytest.mark.parametrize("name", ["typing", "dataclasses", "enum", "ast", "asyncio/tasks"])
def test_a_probe_at_every_attribute_of_a_module_compiles(name):
    source, tree = read(STDLIB / f"{name}.py")
    assert check_compiles(source, tree, everywhere=True) > 30


def test_an_invalid_tree_would_fail_to_compile(monkeypatch):
    """A meta-test: the sweeps can fail."""
    from ipy_autogradwatch.instrument import places

    monkeypatch.setitem(places._LEFT_ALONE, "match_case", ())
    monkeypatch.setattr(places, "_fields", {})
    source = "match a:\n    case x.data: pass"
    with pytest.raises((TypeError, ValueError)):
        check_compiles(source, ast.parse(source))


def installed_files():
    site = Path(sysconfig.get_path("purelib"))
    return [p for root in (STDLIB, site) for p in sorted(root.rglob("*.py")) if p.is_file()]


@pytest.mark.slow
def test_all_that_is_installed_compiles():
    """The files with a site, all of them, and a probe at every attribute of one in eighty."""
    sites = 0
    for index, path in enumerate(dict.fromkeys(installed_files())):
        text = path.read_bytes()
        everywhere = index % 80 == 0 and len(text) < 200_000
        if not everywhere and b".data" not in text and b".backward(" not in text:
            continue
        parsed = read(path)
        if parsed is not None:
            sites += check_compiles(*parsed, everywhere=everywhere)
    assert sites > 500


@pytest.mark.parametrize("module", ["torch", "IPython", "numpy"])
def test_instrument_needs_nothing_but_the_standard_library(module):
    code = f"import sys, ipy_autogradwatch.instrument; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_builtins_is_where_the_name_is_found_last():
    """A function whose globals know no probe, as after ``%reset``, still finds it."""
    function = define("def f(a): return a.data", "f")
    del function.__globals__[PROBE_NAME]
    setattr(builtins, PROBE_NAME, Probe())
    try:
        assert function(types.SimpleNamespace(data=5)) == 5
    finally:
        delattr(builtins, PROBE_NAME)
