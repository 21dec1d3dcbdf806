"""One run of one cell: what is on while the user's code runs.

State lives in a context variable, not on a stack: ``%%capture`` and ``%run x.ipynb`` run
cells inside cells, front ends run several at once on other threads, and a task that a cell
left behind goes on while the next one runs. What happens where no running cell is in
context (a thread, an old task) belongs to the cell that is running, if any.

Knows torch only once the notebook does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.model import CellRecord, Part
from ipy_autogradwatch.observe.probe import imported_torch

if TYPE_CHECKING:
    from ipy_autogradwatch.observe.backward_sites import RootHits
    from ipy_autogradwatch.observe.data_sites import DataHits
    from ipy_autogradwatch.observe.gather import Gathering
    from ipy_autogradwatch.observe.history import LeafHistory
    from ipy_autogradwatch.observe.identity import Identities
    from ipy_autogradwatch.observe.snapshot import Snapshot
    from ipy_autogradwatch.observe.writes import Writes

WALK_SECONDS = 0.010
"""For the walks through graphs while a cell runs, and once more at its end."""

CHECK_SECONDS = 0.010
"""For the looks at what backward will use of overwritten memory, in one cell."""

_ALIAS, _ROOT = int(Part.ALIAS), int(Part.ROOT)
"""As plain numbers: comparing with an enum's member takes ten times longer."""

_current: ContextVar[Run | None] = ContextVar("ipy_autogradwatch_run", default=None)
_running: list[Run] = []


class Watch:
    """What is remembered of one shell from cell to cell: numbers and facts, no tensor."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        self.last: Snapshot | None = None
        self._writes: Writes | None = None
        self._history: LeafHistory | None = None
        self._identities: Identities | None = None

    @property
    def identities(self) -> Identities:
        """Numbers of this shell's tensors. The first use imports what needs torch."""
        if self._identities is None:
            from ipy_autogradwatch.observe.identity import Identities

            self._identities = Identities()
        return self._identities

    @property
    def writes(self) -> Writes:
        """Writes through ``.data`` of this shell. The first use imports what needs torch."""
        if self._writes is None:
            from ipy_autogradwatch.observe.writes import Writes

            self._writes = Writes()
        return self._writes

    @property
    def has_new_writes(self) -> bool:
        """Whether a write came after the last look at what backward will use of it."""
        return self._writes is not None and self._writes.unchecked

    @property
    def history(self) -> LeafHistory:
        """How leaves were at the latest backwards. The first use imports what needs torch."""
        if self._history is None:
            from ipy_autogradwatch.observe.history import LeafHistory

            self._history = LeafHistory()
        return self._history


class Run:
    """Watches from the start of one cell to its end.

    A cell that runs inside another (``%%capture``) has a run too, with a ``parent``; what
    its probes see belongs to the outermost.

    Attributes:
        watch: What is remembered of its shell.
        source: The cell as the user sees it, magics and leading blank lines included.
        outermost: The run of the cell that the user ran.
        data_hits, root_hits: What was gathered of each ``.data`` and backward site, by the id of
            its constant.
        gradcheck: Options of ``%%gradcheck``, or None for a cell without.
    """

    def __init__(
        self,
        watch: Watch,
        namespace: Mapping[str, object],
        hidden: frozenset[str],
        source: str,
        *,
        parent: Run | None = None,
    ) -> None:
        self.parent = parent
        self.outermost: Run = self if parent is None else parent.outermost
        self.source = source
        self.finished = False
        self.gradcheck: Any = None
        self.watch = watch
        self._namespace = namespace
        self._hidden = hidden
        self.data_hits: dict[int, DataHits] = {}
        self.root_hits: dict[int, RootHits] = {}
        self._gathering: Gathering | None = None
        self._before: Snapshot | None = None
        self._grad_off_before = False

    def look_before(self) -> None:
        """Look at the namespace before the cell; without torch there is nothing to see."""
        if self.parent is None and imported_torch() is not None:
            with self.watch.fence.guard("before the cell"):
                self._grad_off_before = _is_grad_off()
                self._before = self.watch.last = self._look()

    def begin(self) -> None:
        """Become the current run."""
        _current.set(self)
        if self.parent is None:
            _running.append(self)

    def finish(self) -> None:
        """Be the current run no more; a task that still carries it is told so."""
        self.finished = True
        if self in _running:
            _running.remove(self)
        # Not reset(token): an async cell ends in another context than it began in.
        _current.set(self.parent)

    def note(self, value: object, site: tuple[Any, ...], part: int) -> None:
        """Take what a probe saw."""
        self.watch.fence.call("probe", self._take, value, site, part)

    def _take(self, value: object, site: tuple[Any, ...], part: int) -> None:
        if self._gathering is None:
            self._gathering = self._gather()
            self.data_hits = self._gathering.data.hits
            self.root_hits = self._gathering.backward.hits
        self._gathering.take(value, site, part)

    def record(
        self, cell: int, *, error: tuple[str, str] | None, read_gradients: bool
    ) -> CellRecord:
        """Look at the namespace after the cell, and return all that was observed.

        Args:
            cell: Execution count.
            error: Class and text of the exception that ended the cell, or None.
            read_gradients: Compute norms of the gradients. This reads elements.
        """
        record = CellRecord(cell, error=error)
        if imported_torch() is not None:
            with self.watch.fence.guard("after the cell"):
                record = self._record(cell, error, read_gradients)
        self.forget()
        return record

    def forget(self) -> None:
        """Drop what was gathered."""
        self._gathering = None
        self.data_hits = {}
        self.root_hits = {}

    def _record(self, cell: int, error: tuple[str, str] | None, read_gradients: bool) -> CellRecord:
        from ipy_autogradwatch.observe.snapshot import Snapshot, states

        gathering = self._gathering
        reached = frozenset[int]() if gathering is None else gathering.backward.reached()
        before = self._before or Snapshot()
        after = self.watch.last = self._look(read_gradients=read_gradients)
        for snapshot in (before, after):
            snapshot.label_leaves(reached, self.watch.identities)
        cuts = [f"Some tensors are left out: {s.cut}." for s in (before, after) if s.cut]
        if gathering is not None and gathering.data.too_many:
            cuts.append("Some uses of .data are left out: there were too many lines with one.")
        return CellRecord(
            cell=cell,
            accesses=() if gathering is None else gathering.data.accesses(after, before),
            backwards=() if gathering is None else gathering.backward.backwards(after),
            damages=() if gathering is None else gathering.backward.damages(after),
            before=states(before),
            after=states(after, since=before, reached=reached),
            cuts=tuple(dict.fromkeys(cuts)),
            error=error,
            grad_off_before=self._grad_off_before,
            grad_off=_is_grad_off(),
        )

    def _gather(self) -> Gathering:
        from ipy_autogradwatch.observe.gather import Gathering
        from ipy_autogradwatch.observe.graph import WalkBudget

        return Gathering(
            self.watch.identities,
            self.watch.writes,
            self.watch.history,
            walks=WalkBudget(WALK_SECONDS),
            checks=WalkBudget(CHECK_SECONDS),
        )

    def _look(self, *, read_gradients: bool = False) -> Snapshot:
        from ipy_autogradwatch.observe.graph import WalkBudget
        from ipy_autogradwatch.observe.snapshot import take_snapshot

        return take_snapshot(
            self._namespace,
            hidden=self._hidden,
            identities=self.watch.identities,
            budget=WalkBudget(WALK_SECONDS),
            previous=self.watch.last,
            marks=frozenset(self.watch.history.roots),
            read_gradients=read_gradients,
        )


def _is_grad_off() -> bool:
    torch = imported_torch()
    return torch is not None and not torch.is_grad_enabled()


def current_run() -> Run | None:
    """Return the run of the cell that the calling code belongs to, or None."""
    run = _current.get()
    if run is not None and not run.finished:
        return run
    return None


def note(value: object, site: tuple[Any, ...], part: int) -> None:
    """Pass what a probe saw to the run it belongs to; what every `Probe` listens with."""
    run = _current.get()
    if run is None or run.finished:
        if not _running:
            return
        run = _running[-1]
    run = run.outermost
    if part <= _ALIAS:
        # Nearly every hit of a loop ends here: counted, and not looked at.
        hits = run.data_hits.get(id(site))
        if hits is not None:
            if part:
                if not hits.expects_alias:
                    return
            elif hits.hits + 1 < hits.next_look:
                hits.hits += 1
                return
    elif part == _ROOT:
        root = run.root_hits.get(id(site))
        if root is not None and not run.watch.has_new_writes and root.only_counts():
            return
    run.note(value, site, part)
