"""``%%gradcheck`` in one shell: between the magic, ``prove``, and what names things have."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.model import GradientVerdict
from ipy_autogradwatch.notebook.config import AutogradWatch
from ipy_autogradwatch.notebook.progress import Progress
from ipy_autogradwatch.notebook.sources import cell_number, lines_above

if TYPE_CHECKING:
    from ipy_autogradwatch.prove.check import CellCheck
    from ipy_autogradwatch.prove.recording import Recorder

NAME_SECONDS = 0.5
MAX_NAMED = 20_000

_WRAPPERS = ("_compile.py", "eval_frame.py")
"""Of PyTorch: what keeps torch.compile out of a mode."""
_PROVE = str(Path(__file__).parent.parent / "prove")


class Proof:
    """The check of the cell that is running."""

    def __init__(
        self,
        shell: InteractiveShell,
        settings: AutogradWatch,
        fence: Fence,
        options: Any,
        source: str,
        previous: Proof | None,
    ) -> None:
        self._shell: Any = shell
        self._settings = settings
        self._fence = fence
        self._options = options
        self._source = source
        self._above = lines_above(source)
        self._cell = shell.displayhook.prompt_count
        self._check: CellCheck | None = None
        self._handler: Any = None
        self._progress = Progress(shell)
        # What a checked cell has computed, the next one may run backward of.
        self._recorder: Recorder | None = None if previous is None else previous._recorder

    def begin(self) -> None:
        """Record from here on."""
        # Not before a cell asks for it: torch is the user's to import, and this needs it.
        from ipy_autogradwatch.prove.check import CellCheck, Options

        asked = self._options
        self._check = CellCheck(
            Options(
                of=_names(asked.of),
                wrt=_names(asked.wrt),
                backwards=asked.backwards,
                directions=0 if asked.no_numeric else asked.directions,
                tolerance=asked.tolerance,
                max_bytes=self._settings.max_tape_bytes,
                may_compile="compile" in self._source,
            ),
            self._where,
            self._fence,
            self._recorder,
            self._progress.show,
        )
        self._recorder = self._check.recorder
        self._take_tracebacks()
        self._check.begin()

    def end(self) -> None:
        """Record no more."""
        if self._check is not None:
            self._check.end()
        self._give_back_tracebacks()
        self._progress.close()

    def collect(self) -> None:
        """Let go of what was recorded and is not used any more."""
        if self._recorder is not None:
            self._recorder.collect()

    def verdicts(self) -> tuple[tuple[GradientVerdict, ...], tuple[str, ...]]:
        """Return what was settled, and a sentence for each thing that was left out."""
        check, self._check = self._check, None
        if check is None:
            return (), ()
        names = self._tensor_names()
        return check.verdicts(lambda tensor: names.get(id(tensor))), check.remarks()

    def _where(self, filename: str) -> tuple[int, int] | None:
        """Return the cell that was compiled as *filename*, and how many lines are above it."""
        number = cell_number(self._shell, filename)
        if number is None:
            return None
        return number, self._above if number == self._cell else 0

    def _tensor_names(self) -> dict[int, str]:
        from ipy_autogradwatch.observe.namespace import find_tensors

        found = find_tensors(
            self._shell.user_ns,
            hidden=frozenset(self._shell.user_ns_hidden),
            max_tensors=MAX_NAMED,
            seconds=NAME_SECONDS,
        )
        return {id(tensor): name for name, tensor in found.tensors}

    # An error of the user's is to look as it would without us.

    def _take_tracebacks(self) -> None:
        shell = self._shell
        if shell.custom_exceptions:
            return  # The user has a handler of their own.

        def show(shell: Any, kind: Any, value: Any, trace: Any, tb_offset: Any = None) -> None:
            without_ours(value)
            shell.showtraceback((kind, value, value.__traceback__), running_compiled_code=True)

        self._handler = (shell.custom_exceptions, shell.CustomTB)
        shell.set_custom_exc((Exception,), show)

    def _give_back_tracebacks(self) -> None:
        if self._handler is not None:
            self._shell.custom_exceptions, self._shell.CustomTB = self._handler
            self._handler = None


def without_ours(error: BaseException) -> None:
    """Take the frames of `prove` out of the traceback of *error*, and of its causes."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _pruned(one.__traceback__)
        waiting += [one.__cause__, one.__context__]


def _pruned(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_PROVE):
            kept.append(trace)
        elif code.co_name == "__torch_dispatch__":
            while kept and kept[-1].tb_frame.f_code.co_filename.endswith(_WRAPPERS):
                kept.pop()
            break  # Below it is what PyTorch calls an operation with, in C without a mode.
        trace = trace.tb_next
    for here, below in zip(kept, [*kept[1:], None], strict=True):
        here.tb_next = below
    return kept[0] if kept else None


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name for text in given or () for name in text.replace(",", " ").split())
