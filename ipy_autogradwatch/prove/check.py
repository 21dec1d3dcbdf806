"""The check of one cell, from its first line to its last."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ipy_autogradwatch.fence import Fence, attempt
from ipy_autogradwatch.model import GradientVerdict
from ipy_autogradwatch.prove.case import Outcome
from ipy_autogradwatch.prove.comparing import Question, Target, dense_of, quiet
from ipy_autogradwatch.prove.interception import BackwardRequest, Interception, is_supported
from ipy_autogradwatch.prove.judging import judge
from ipy_autogradwatch.prove.lines import Lines, Where
from ipy_autogradwatch.prove.recording import STAGE, Recorder, keep_dynamo_out
from ipy_autogradwatch.prove.replaying import CannotReplay
from ipy_autogradwatch.prove.slicing import connected_part
from ipy_autogradwatch.prove.tape import FunctionCall, Place, Ref
from ipy_autogradwatch.prove.tensors import is_true_leaf

MAX_NODES = 20_000
PATIENCE = 1.0
"""Seconds of checking after which it is said how far it is."""

NameOf = Callable[[torch.Tensor], str | None]


@dataclass(frozen=True, slots=True)
class Options:
    """What ``%%gradcheck`` was asked for.

    Attributes:
        of, wrt: Names of the roots and of the leaves to settle; empty for all.
        backwards: How many backwards to settle; the rest runs unrecorded.
        directions: How many random directions to compare with differences; 0 for none.
        tolerance: Relative error that still counts as equal; None for that of the dtype.
        max_bytes: Of recorded tensors.
        may_compile: The cell may call torch.compile.
    """

    of: tuple[str, ...] = ()
    wrt: tuple[str, ...] = ()
    backwards: int = 3
    directions: int = 1
    tolerance: float | None = None
    max_bytes: int = 2**30
    may_compile: bool = False


@dataclass(slots=True, eq=False)
class _Pending:
    """One backward that is about to run."""

    request: BackwardRequest
    question: Question | None
    before: list[torch.Tensor | None]
    place: Place | None
    why: str = ""
    handles: list[Any] = field(default_factory=list)
    captured: dict[int, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Settled:
    root: weakref.ref[torch.Tensor] | None
    place: Place | None
    outcomes: list[Outcome]


class CellCheck:
    """Records a cell and settles its backwards."""

    def __init__(
        self,
        options: Options,
        where: Where,
        fence: Fence,
        recorder: Recorder | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._options = options
        self._fence = fence
        self._lines = Lines(where)
        if recorder is None or recorder.tape.stopped:
            recorder = Recorder(fence, options.max_bytes)
        self.recorder = self._recorder = recorder
        recorder.lines = self._lines
        self._interception = Interception(self._before, self._after, self._failed)
        self._settled: list[_Settled] = []
        self._on = False
        self._suspended = False
        self._counted = 0
        self._progress = progress
        self._spent = 0.0
        self.skipped = 0
        self.interrupted = False

    # From the first line to the last.

    def begin(self) -> None:
        """Start to record."""
        if not is_supported():
            return
        if self._options.may_compile or "torch._dynamo" in sys.modules:
            keep_dynamo_out()
        self._recorder.__enter__()  # type: ignore[no-untyped-call]
        self._interception.install()
        self._on = True

    def end(self) -> None:
        """Stop, and leave PyTorch as it was found. May be called twice."""
        if self._on:
            self._on = False
            self._interception.remove()
            _leave(self._recorder)
            with self._fence.guard(STAGE):
                self._recorder.collect()

    def verdicts(self, name_of: NameOf) -> tuple[GradientVerdict, ...]:
        """Return what was settled, in the words of the user's namespace."""
        found: list[GradientVerdict] = []
        for settled in self._settled:
            root = _named(settled.root, name_of) or _unnamed_root(settled.place)
            for outcome in settled.outcomes:
                verdict = _verdict(outcome, root, settled.place, name_of)
                if self._is_wanted(verdict):
                    found.append(verdict)
        return tuple(found)

    def remarks(self) -> tuple[str, ...]:
        """Return a sentence for each thing that was not settled."""
        said = []
        if self.interrupted:
            said.append("The check was interrupted; what comes after it is not settled.")
        if self.skipped:
            count = self._counted
            said.append(
                f"The first {count} backwards are settled; the rest ran unrecorded "
                f"(%%gradcheck --backwards N)."
            )
        return tuple(said)

    def _is_wanted(self, verdict: GradientVerdict) -> bool:
        of, wrt = self._options.of, self._options.wrt
        return (not of or verdict.root in of) and (not wrt or verdict.leaf in wrt)

    # Around a backward.

    def _before(self, request: BackwardRequest) -> _Pending | None:
        if not self._on or self.interrupted:
            return None
        if any(map(is_functorch_wrapped_tensor, (*request.roots, *request.inputs))):
            return None  # Inside torch.func: its operations are recorded, and differentiated.
        pending: list[_Pending] = []
        paused = self._recorder.paused
        self._recorder.paused = True
        with self._fence.guard(STAGE):
            pending.append(self._prepare(request))
        self._recorder.paused = paused
        if not request.creates_graph:
            # Not only paused: the user's backward is to cost nothing more.
            self._suspended = _get_current_dispatch_mode_stack()[-1:] == [self._recorder]
            if self._suspended:
                _leave(self._recorder)
            self._recorder.paused = True
        return pending[0] if pending else None

    def _prepare(self, request: BackwardRequest) -> _Pending:
        place = self._lines.place_here()
        if self._counted >= self._options.backwards:
            return _Pending(request, None, [], place, "limit")
        tape = self._recorder.tape
        if tape.stopped:
            return _Pending(request, None, [], place, tape.stopped)
        if not all(self._recorder.knows(root) for root in request.roots):
            why = "computed in a cell that was not checked, or its graph was already freed"
            return _Pending(request, None, [], place, why)
        roots = tuple((self._recorder.read(r), r.detach()) for r in request.roots)
        question = Question(tape, roots, request.seeds, ())
        tensors = self._targets(question, request)
        question.targets = tuple(tensors)
        before = [_copy_of_gradient(t.tensor()) for t in tensors]
        result = _Pending(request, question, before, place)
        if any(call.name for call in tape.calls):
            self._listen_to_functions(result, request)
        return result

    def _targets(self, question: Question, request: BackwardRequest) -> list[Target]:
        if request.inputs:
            return [self._target(t) for t in request.inputs]
        seen: dict[int, Target] = {}
        for load in question.leaf_loads():
            leaf = None if load.leaf is None else load.leaf()
            if leaf is not None and id(leaf) not in seen:
                seen[id(leaf)] = self._target(leaf, load.place)
        return list(seen.values())

    def _target(self, tensor: torch.Tensor, place: Place | None = None) -> Target:
        ref: Ref | None = None if is_true_leaf(tensor) else self._recorder.read(tensor)
        shape = tuple(tensor.shape)
        return Target(weakref.ref(tensor), shape, tensor.dtype, None, ref=ref, place=place)

    def _listen_to_functions(self, pending: _Pending, request: BackwardRequest) -> None:
        calls = {c.sequence: c for c in self._recorder.tape.calls if c.name}
        for node in _custom_nodes([r.grad_fn for r in request.roots], calls):
            sequence = node._sequence_nr()

            def hook(returned: Any, given: Any, sequence: int = sequence) -> None:
                pending.captured[sequence] = _copies(returned), _copies(given)

            for root, (ref, _) in zip(request.roots, pending.question.roots, strict=True):  # type: ignore[union-attr]
                if root.grad_fn is node and calls[sequence].output is None:
                    calls[sequence].output = ref
            pending.handles.append(node.register_hook(hook))

    def _failed(self, pending: _Pending | None) -> None:
        if self._suspended:
            self._suspended = False
            self._recorder.__enter__()  # type: ignore[no-untyped-call]
        self._recorder.paused = False
        if pending is not None:
            with self._fence.guard(STAGE):
                for handle in pending.handles:
                    handle.remove()

    def _after(self, pending: _Pending | None, result: Any) -> None:
        self._failed(pending)
        if pending is None or not self._on:
            return
        try:
            self._recorder.paused = True
            with self._fence.guard(STAGE):
                self._settle(pending, result)
        except KeyboardInterrupt:
            # The user is tired of the check, not of the cell: it goes on, unrecorded.
            self.interrupted = True
            self._recorder.stop("interrupted")
        finally:
            self._recorder.paused = False

    def _settle(self, pending: _Pending, result: Any) -> None:
        if pending.why == "limit":
            self.skipped += 1
            self.end()
            return
        root = weakref.ref(pending.request.roots[0])
        question = pending.question
        if question is None:
            outcome = Outcome(None, "undecided", pending.why)
            self._settled.append(_Settled(root, pending.place, [outcome]))
            return
        # A gradient that goes on into a loss is a step on the way to a backward.
        self._counted += pending.request.accumulates or not pending.request.creates_graph
        if self._progress is not None and self._spent > PATIENCE:
            self._progress(len(self._settled), self._options.backwards)
        started = time.perf_counter()
        with quiet():
            _take_delivered(pending, result)
            outcomes = self._judge(pending, question)
            self._settled.append(_Settled(root, pending.place, outcomes))
            for outcome in outcomes:
                if outcome.target is not None:
                    outcome.target.delivered = None
            if not pending.request.retains and not pending.request.creates_graph:
                views = [ref.view for ref, _ in question.roots]
                self._recorder.drop(connected_part(question.entries, views))
        self._spent += time.perf_counter() - started

    def _judge(self, pending: _Pending, question: Question) -> list[Outcome]:
        options = self._options
        try:
            return judge(
                question,
                numeric=options.directions > 0,
                directions=options.directions,
                tolerance=options.tolerance,
                captured=pending.captured,
            )
        except CannotReplay as error:
            return [Outcome(t, "undecided", str(error)) for t in question.targets] or [
                Outcome(None, "undecided", str(error))
            ]


def _leave(recorder: Recorder) -> None:
    """Take *recorder* off the stack of modes, wherever the user's own modes are now."""
    if recorder not in _get_current_dispatch_mode_stack():
        return
    above = []
    while (top := _get_current_dispatch_mode_stack()[-1]) is not recorder:
        top.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        above.append(top)
    recorder.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    for mode in reversed(above):
        mode.__enter__()  # type: ignore[no-untyped-call]


def _take_delivered(pending: _Pending, result: Any) -> None:
    assert pending.question is not None
    results = iter(result if isinstance(result, (tuple, list)) else ())
    for target, before in zip(pending.question.targets, pending.before, strict=True):
        tensor = target.tensor()
        if not pending.request.accumulates:
            got = next(results, None)
            target.delivered = None if got is None else dense_of(got.detach())
        elif tensor is not None and tensor.grad is not None:
            now = dense_of(tensor.grad.detach())
            if before is None:
                target.delivered = now
            else:
                target.delivered = (
                    now.to(torch.float64) - before.to(torch.float64)
                    if (not now.is_complex())
                    else now - before
                )
                target.noise = 4 * torch.finfo(now.dtype).eps * float(now.norm() + before.norm())


def _copy_of_gradient(tensor: torch.Tensor | None) -> torch.Tensor | None:
    if tensor is None or not tensor.is_leaf or tensor.grad is None:
        return None
    return dense_of(tensor.grad.detach()).clone()


def _copies(values: Any) -> tuple[torch.Tensor | None, ...]:
    return tuple(
        dense_of(v.detach()).clone() if isinstance(v, torch.Tensor) else None for v in values
    )


def _custom_nodes(start: list[Any], calls: dict[int, FunctionCall]) -> list[Any]:
    """Return the nodes of *calls* that the roots reach."""
    found: list[Any] = []
    seen: set[Any] = set()
    waiting = [node for node in start if node is not None]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction) and (
            node._sequence_nr() in calls
        ):
            found.append(node)
        waiting.extend(edge for edge, _ in node.next_functions if edge is not None)
    return found


def _named(reference: weakref.ref[torch.Tensor] | None, name_of: NameOf) -> str | None:
    tensor = None if reference is None else reference()
    return None if tensor is None else attempt(lambda: name_of(tensor), None)


def _unnamed_root(place: Place | None) -> str:
    return "<root>" if place is None else f"<root of line {place[1]}>"


def _unnamed_leaf(target: Target) -> str:
    used = "" if target.place is None else f" used at line {target.place[1]}"
    return f"<leaf of shape {target.shape}{used}>"


def _verdict(outcome: Outcome, root: str, place: Place | None, name_of: NameOf) -> GradientVerdict:
    leaf = ""
    if outcome.target is not None:
        leaf = _named(outcome.target.tensor, name_of) or _unnamed_leaf(outcome.target)
    return GradientVerdict(
        leaf=leaf,
        root=root,
        verdict=outcome.verdict,
        relative_error=outcome.relative_error,
        autograd_norm=outcome.autograd_norm,
        true_norm=outcome.true_norm,
        difference_norm=outcome.difference_norm,
        worst=leaf + outcome.worst if outcome.worst[:1] == "[" else outcome.worst,
        reason=outcome.reason,
        cause=outcome.cause,
        blame=tuple(place for place, _ in outcome.blame),
        shares=tuple(share for _, share in outcome.blame),
        backward=place,
    )
