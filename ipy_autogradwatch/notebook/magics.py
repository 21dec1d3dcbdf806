"""``%autogradwatch``, ``%%gradcheck`` and ``%gradcheck f(x)``."""

from __future__ import annotations

import ast
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from IPython.core import magic as _magic
from IPython.core import magic_arguments as _magic_arguments
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics

from ipy_autogradwatch.notebook.completion import COMMANDS
from ipy_autogradwatch.notebook.config import REPORTS
from ipy_autogradwatch.notebook.display import has_color, show_report, width_of
from ipy_autogradwatch.rules import all_rules, rule_page

if TYPE_CHECKING:
    from ipy_autogradwatch.notebook.extension import Extension

# IPython's decorators are untyped, or typed in some versions only.
magic_arguments: Any = _magic_arguments.magic_arguments
argument: Any = _magic_arguments.argument
parse_argstring: Any = _magic_arguments.parse_argstring
line_magic: Any = _magic.line_magic
line_cell_magic: Any = _magic.line_cell_magic
no_var_expand: Any = _magic.no_var_expand
magics_class: Any = _magic.magics_class


def _count(text: str) -> int:
    """Return *text* as a number of things. Its name is what an error calls it."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


@magics_class
class AutogradWatchMagics(Magics):
    """The magics of one shell."""

    def __init__(self, shell: InteractiveShell, extension: Extension) -> None:
        super().__init__(shell)
        self._extension = extension

    @magic_arguments()
    @argument("command", nargs="?", default="status", help=" | ".join(COMMANDS))
    @argument("value", nargs="?", help="a rule's code, or what to report")
    @line_magic
    def autogradwatch(self, line: str) -> None:
        """Steer the watcher.

        ::

            %autogradwatch                   is it on, what has it seen
            %autogradwatch off               stop watching new cells; `on` to go on
            %autogradwatch explain AGW102    what a finding means, with examples
            %autogradwatch ignore AGW101     do not report a rule in this session
            %autogradwatch report            the last cell's report in full
            %autogradwatch report findings   from now on: changes, always, findings or off
        """
        arguments = _parsed(self.autogradwatch, line, "%autogradwatch explain AGW101")
        if arguments.command not in COMMANDS:
            raise UsageError(
                f"%autogradwatch: unknown command {arguments.command!r}; "
                f"try one of {', '.join(COMMANDS)}, as in: %autogradwatch explain AGW101"
            )
        takes_value = arguments.command in ("explain", "ignore", "report")
        if arguments.value is not None and not takes_value:
            command = f"%autogradwatch {arguments.command}"
            raise UsageError(f"{command} takes no {arguments.value!r}; as in: {command}")
        getattr(self, f"_{arguments.command}")(arguments.value)

    def _on(self, _: None) -> None:
        self._extension.settings.enabled = True

    def _off(self, _: None) -> None:
        self._extension.settings.enabled = False

    def _status(self, _: None) -> None:
        settings, fence = self._extension.settings, self._extension.fence
        self._say(
            f"autogradwatch is {'on' if settings.enabled else 'off'}; report: {settings.report}"
        )
        if settings.ignore:
            self._say(f"ignored: {', '.join(settings.ignore)}")
        for stage in fence.closed_stages():
            self._say(f"{stage} failed too often and is off until %reload_ext ipy_autogradwatch")
        if fence.history:
            self._say(f"last failure, in {fence.history[-1].stage}:\n{fence.history[-1].traceback}")

    def _explain(self, code: str | None) -> None:
        rule = {rule.code: rule for rule in all_rules()}.get(self._known_code("explain", code))
        assert rule is not None
        from ipy_autogradwatch.render import page_text

        page = rule_page(rule)
        text = page_text(page, width=width_of(self._shell), color=has_color(self._shell))
        self._shell.display_pub.publish(
            data={"text/plain": text, "text/markdown": page}, metadata={}
        )

    def _ignore(self, code: str | None) -> None:
        settings = self._extension.settings
        known = self._known_code("ignore", code)
        if known not in settings.ignore:
            settings.ignore = [*settings.ignore, known]

    def _report(self, choice: str | None) -> None:
        if choice is None:
            report = self._extension.report
            if report is None:
                self._say("autogradwatch: no cell has been watched yet")
            else:
                show_report(self._shell, report, self._extension.settings, show="always")
        elif choice in REPORTS:
            self._extension.settings.report = choice
        else:
            raise UsageError(
                f"%autogradwatch report: {choice!r} is none of {', '.join(REPORTS)}; "
                "as in: %autogradwatch report findings"
            )

    def _known_code(self, command: str, code: str | None) -> str:
        codes = [rule.code for rule in all_rules()]
        wanted = (code or "").upper()
        if wanted not in codes:
            what = "which rule?" if code is None else f"there is no rule {code!r};"
            known = ", ".join(get_close_matches(wanted, codes, 3, 0.5) or codes[:3])
            raise UsageError(
                f"%autogradwatch {command}: {what} there are {known} (Tab lists all), "
                f"as in: %autogradwatch {command} {codes[0]}"
            )
        return wanted

    @magic_arguments("%gradcheck")
    @argument("--of", action="append", metavar="NAME", help="settle backwards of this root only")
    @argument("--wrt", action="append", metavar="NAMES", help="and these leaves: w,model.fc.bias")
    @argument("--backwards", type=_count, default=3, metavar="N", help="settle the first N (3)")
    @argument("--directions", type=_count, default=1, metavar="K", help="random directions (1)")
    @argument("--tolerance", type=float, metavar="X", help="relative error that counts as equal")
    @argument("--no-numeric", action="store_true", help="no finite differences: faster")
    @argument("--full", action="store_true", help="a line for every leaf, also where it is right")
    @no_var_expand
    @line_cell_magic
    def gradcheck(self, line: str, cell: str | None = None) -> Any:
        """Settle every gradient of a cell; or check one call numerically.

        As the first line of a cell, the cell runs exactly as it would without it, and is
        recorded. At each backward what was recorded is run again in double precision, and
        for every leaf the gradient that autograd delivered is compared with the derivative
        of the number that was computed: right, wrong (by how much, because of which line),
        by_design, vacuous, or undecided (and why)::

            %%gradcheck --wrt model.fc.weight --backwards 1
            loss = model(x).square().mean()
            loss.backward()

        In a line, with a call, the gradients of that call are compared with finite
        differences in float64 (``torch.autograd.gradcheck``)::

            %gradcheck f(x, weight=w)
        """
        __tracebackhide__ = True
        if cell is None:
            return self._check_call(line)
        # By hand, or from a script that nbconvert has written.
        self._extension.begin_gradcheck(line)
        return self._run_body(line, cell)

    def gradcheck_options(self, line: str) -> Any:
        """Return the options of ``%%gradcheck``.

        Raises:
            UsageError: They are not understood.
        """
        return _parsed(self.gradcheck, line, "%%gradcheck --backwards 1")

    def _run_body(self, line: str, cell: str) -> Any:
        __tracebackhide__ = True
        shell: Any = self._shell
        raw = f"%%gradcheck {line}\n{cell}"  # `origin` reads it.
        source = "\n" + shell.transform_cell(cell)  # The body keeps the lines of the cell.
        name = shell.compile.cache(source, shell.displayhook.prompt_count, raw_code=raw)
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(shell.compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
        if not isinstance(last, ast.Expr):
            return None
        expression = shell.compile(ast.Expression(last.value), name, "eval")
        return eval(expression, shell.user_global_ns, shell.user_ns)

    def _check_call(self, line: str) -> None:
        __tracebackhide__ = True
        from ipy_autogradwatch.notebook.gradcheck_call import check_call

        self._say(check_call(self._shell, line))

    @property
    def _shell(self) -> InteractiveShell:
        shell = self.shell
        assert isinstance(shell, InteractiveShell)
        return shell

    def _say(self, text: str) -> None:
        self._shell.display_pub.publish(data={"text/plain": text}, metadata={})


def _parsed(magic: Any, line: str, example: str) -> Any:
    """Return the options in *line*; an error says how it is done."""
    try:
        return parse_argstring(magic, line)
    except UsageError as error:
        name = example.split()[0]
        raise UsageError(f"{name}: {error}; as in: {example} (or ask {name}?)") from None
    except ValueError as error:  # A quotation that is not closed.
        raise UsageError(f"{example.split()[0]}: {error}; as in: {example}") from None
