"""Hooks into one shell, and out of it again."""

from __future__ import annotations

import ast
import builtins
import os
import sys
from dataclasses import replace
from types import MethodType
from typing import Any, ClassVar

from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.diagnose import changes, findings
from ipy_autogradwatch.fence import Fence, safe_str
from ipy_autogradwatch.model import PROBE_NAME, CellRecord, CellReport
from ipy_autogradwatch.notebook.cell_magic import asks_for_gradcheck, rewrite_gradcheck
from ipy_autogradwatch.notebook.completion import add_matcher, remove_matcher
from ipy_autogradwatch.notebook.config import configure
from ipy_autogradwatch.notebook.display import show_report
from ipy_autogradwatch.notebook.magics import AutogradWatchMagics
from ipy_autogradwatch.notebook.origin import origin
from ipy_autogradwatch.notebook.proof import Proof
from ipy_autogradwatch.notebook.sources import Sources
from ipy_autogradwatch.observe.probe import PROBE
from ipy_autogradwatch.observe.run import Run, Watch, current_run, note
from ipy_autogradwatch.rules import all_rules

ATTRIBUTE = "_ipy_autogradwatch"
"""The extension hangs on its shell under this name."""


class _Latest:
    """The report of the cell that finished last, in whichever shell."""

    report: CellReport | None = None


latest = _Latest()


class Extension:
    """Watches one shell, from `attach` to `detach`. IPython's AST transformer as well."""

    _attached: ClassVar[list[Extension]] = []
    _sites_compiled: ClassVar[bool] = False

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.fence = Fence()
        self.settings, self.refused_settings = configure(shell)
        self.report: CellReport | None = None
        self._watch = Watch(self.fence)
        self._sources = Sources(shell)
        self._magics: AutogradWatchMagics | None = None
        self._replaced_magics: dict[str, dict[str, Any]] = {}
        self._matcher: Any = None
        self._pid = os.getpid()
        # The cell that runs %load_ext began before we listened.
        self._loading: Run | None = None
        self._proof: Proof | None = None

    # Load and unload.

    def attach(self) -> None:
        """Hook into the shell; all of it, or nothing."""
        try:
            self._attach()
        except BaseException:
            self.detach()
            raise
        for line in self.refused_settings:
            print(line, file=sys.stderr)  # noqa: T201 - before there is any report

    def _attach(self) -> None:
        shell = self.shell
        setattr(shell, ATTRIBUTE, self)
        shell.configurables.append(self.settings)  # type: ignore[arg-type]
        self._add_magics()
        if not self._attached:
            PROBE.listen(note)
        self._attached.append(self)
        setattr(builtins, PROBE_NAME, PROBE)
        shell.ast_transformers.append(self)  # type: ignore[arg-type]
        shell.input_transformers_cleanup.append(rewrite_gradcheck)
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)
        self._matcher = add_matcher(shell)
        self._loading = self._new_run("")
        self._loading.look_before()

    def detach(self) -> None:
        """Undo `attach`, whatever was loaded before or since, and however far it came."""
        shell = self.shell
        _remove(shell.ast_transformers, self)
        _remove(shell.input_transformers_cleanup, rewrite_gradcheck)
        for event, callback in (("pre_run_cell", self._before), ("post_run_cell", self._after)):
            _remove(shell.events.callbacks[event], callback)
        remove_matcher(shell, self._matcher)
        self._remove_magics()
        _remove(shell.configurables, self.settings)
        _remove(self._attached, self)
        self._end_proof()
        run = self._current_run()
        while run is not None:  # Unloaded from inside a cell, or a cell in a cell.
            run.finish()
            run = run.parent
        self._remove_probe()
        if getattr(shell, ATTRIBUTE, None) is self:
            delattr(shell, ATTRIBUTE)

    def _remove_probe(self) -> None:
        if not self._attached:
            PROBE.silence()
        # Functions that were defined while we were loaded still call it: it stays, inert.
        if not self._sites_compiled:
            self.shell.user_ns.pop(PROBE_NAME, None)
            self.shell.user_ns_hidden.pop(PROBE_NAME, None)
            if not self._attached and hasattr(builtins, PROBE_NAME):
                delattr(builtins, PROBE_NAME)

    def _add_magics(self) -> None:
        shell = self.shell
        before = list(shell.configurables)
        self._magics = AutogradWatchMagics(shell, self)
        self._own_configurables = [c for c in shell.configurables if c not in before]
        manager = shell.magics_manager
        for kind, names in self._magics.magics.items():
            taken = {n: manager.magics[kind][n] for n in names if n in manager.magics[kind]}
            self._replaced_magics[kind] = taken
        shell.register_magics(self._magics)

    def _remove_magics(self) -> None:
        if self._magics is None:
            return
        manager = self.shell.magics_manager
        for kind, names in self._magics.magics.items():
            for name, function in names.items():
                if manager.magics[kind].get(name) == function:
                    del manager.magics[kind][name]
                    manager.magics[kind].update(
                        {n: f for n, f in self._replaced_magics[kind].items() if n == name}
                    )
        if manager.registry.get(type(self._magics).__name__) is self._magics:
            del manager.registry[type(self._magics).__name__]
        for configurable in self._own_configurables:
            _remove(self.shell.configurables, configurable)
        self._magics = None

    # IPython calls these.

    def visit(self, tree: ast.AST) -> ast.AST:
        """Instrument a cell, or the piece of one that a magic compiles. Never raises.

        Silent executions of front ends (completions, a variable list) come here too, but
        with no run: they are left alone.
        """
        run = self._current_run()
        if run is not None and self._is_wanted(run) and isinstance(tree, ast.Module):
            with self.fence.guard("instrument"):
                self._instrument(tree, run)
        return tree

    def _instrument(self, tree: ast.Module, run: Run) -> None:
        if not self.fence.is_open("instrument"):
            return
        # Not before a cell is run: a third of what loading would take.
        from ipy_autogradwatch.instrument import instrument, may_have_sites

        text, file = origin(self.shell, AutogradWatchMagics._run_body.__code__)
        source = run.outermost.source if text is None else text
        if not may_have_sites(source):
            return
        # Not execution_count: while a cell runs it is n in IPython 8 and n + 1 in 9.
        cell = None if file else self.shell.displayhook.prompt_count
        if instrument(tree, source, cell=cell, file=file):
            Extension._sites_compiled = True
            # Each time, for %reset empties the namespace.
            self.shell.user_ns[PROBE_NAME] = PROBE
            self.shell.user_ns_hidden[PROBE_NAME] = PROBE

    def _before(self, info: Any = None) -> None:
        with self.fence.guard("start of the cell"):
            self._loading = None
            run = self._new_run(getattr(info, "raw_cell", None) or "")
            # %autogradwatch may change the setting before the cell ends.
            is_watched = self._is_wanted(run)
            info._autogradwatch = run, is_watched
            if is_watched and info.store_history:
                run.look_before()
            run.begin()

    def _after(self, result: Any = None) -> None:
        if os.getpid() != self._pid:
            return  # A forked worker that left its cell by another door.
        with self.fence.guard("end of the cell"):
            info = getattr(result, "info", None)
            run, is_watched = self._begun(info)
            if run is None or run.parent is None:
                self._end_proof()
            if run is not None:
                run.finish()
            elif self._loading is not None and getattr(info, "store_history", True):
                run, self._loading = self._loading, None
            self._finish(run, info, result, is_watched=is_watched)

    def _begun(self, info: Any) -> tuple[Run | None, bool]:
        """Return the run that `_before` began for a cell, and whether it is watched."""
        run, is_watched = getattr(info, "_autogradwatch", (None, True))
        if run is None or run.watch is not self._watch:  # %reload_ext, in this cell.
            return None, True
        # The shell keeps the result of its last cell; that should not keep the run.
        del info._autogradwatch
        return run, is_watched

    def _finish(self, run: Run | None, info: Any, result: Any, *, is_watched: bool) -> None:
        if run is None or run.parent is not None:
            return
        is_gradcheck = run.gradcheck is not None
        count = getattr(result, "execution_count", None)
        if count is None or not getattr(info, "store_history", True):
            run.forget()
            self.fence.take_failures()
            return
        error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)
        if is_watched:
            record = run.record(count, error=_named(error), read_gradients=is_gradcheck)
        else:
            run.forget()
            record = CellRecord(count, error=_named(error))
        with self.fence.guard("gradcheck"):
            record = self._with_verdicts(record)
        with self.fence.guard("sources"):
            self._sources.note(count, run.source)
            if error is not None:
                record = replace(record, error_at=self._sources.places(error, count))
            record = replace(record, sources=self._sources.all())
        report = self._diagnose(record, is_gradcheck=is_gradcheck)
        self.report = latest.report = report
        with self.fence.guard("render"):
            full = is_gradcheck and run.gradcheck.full
            show_report(self.shell, report, self.settings, show="full" if full else None)

    def _diagnose(self, record: CellRecord, *, is_gradcheck: bool) -> CellReport:
        found: tuple[Any, ...] = ()
        changed: tuple[Any, ...] = ()
        with self.fence.guard("diagnose"):
            found = findings(record, all_rules(), self.fence, ignore=self.settings.ignore)
        with self.fence.guard("diagnose"):
            changed = changes(record)
        return CellReport(
            cell=record.cell,
            findings=found,
            before=record.before,
            after=record.after,
            verdicts=record.verdicts,
            failures=self.fence.take_failures(),
            changes=changed,
            backwards=record.backwards,
            cuts=record.cuts,
            gradcheck=is_gradcheck,
            error=record.error,
        )

    # The magics call these.

    def begin_gradcheck(self, options: str) -> None:
        """Begin the check of the cell that is running; what ``%%gradcheck`` becomes.

        Raises:
            UsageError: *options* are not understood. The rest of the cell does not run.
        """
        assert self._magics is not None
        parsed = self._magics.gradcheck_options(options)
        run = self._current_run()
        if run is None or run.outermost.gradcheck is not None:
            return
        run.outermost.gradcheck = parsed
        with self.fence.guard("gradcheck"):
            source = run.outermost.source
            self._proof = Proof(
                self.shell, self.settings, self.fence, parsed, source, previous=self._proof
            )
            self._proof.begin()

    def _end_proof(self) -> None:
        if self._proof is not None:
            with self.fence.guard("gradcheck"):
                self._proof.end()

    def _with_verdicts(self, record: CellRecord) -> CellRecord:
        if self._proof is None:
            return record
        self._proof.collect()
        verdicts, cuts = self._proof.verdicts()
        return replace(record, verdicts=verdicts, cuts=(*record.cuts, *cuts))

    def _new_run(self, source: str) -> Run:
        shell = self.shell
        return Run(
            self._watch,
            shell.user_ns,
            frozenset(shell.user_ns_hidden),
            source,
            parent=self._current_run(),
        )

    def _current_run(self) -> Run | None:
        """Return the run of this shell's cell that is running; a cell may run other shells."""
        run = current_run()
        return run if run is not None and run.watch is self._watch else None

    def _is_wanted(self, run: Run) -> bool:
        return self.settings.enabled or asks_for_gradcheck(run.outermost.source)


def _remove(items: list[Any], item: object) -> None:
    """Take *item* out of *items*; never asks somebody else's ``__eq__``."""
    items[:] = [other for other in items if not _is_same(other, item)]


def _is_same(other: object, item: object) -> bool:
    # A bound method is a new object each time it is looked up.
    return other is item or (type(other) is type(item) is MethodType and other == item)


def _named(error: BaseException | None) -> tuple[str, str] | None:
    return None if error is None else (type(error).__name__, safe_str(error)[:2000])
