"""The gradients of a backward, by three ways that have nothing in common.

Delivered is what the user got. Replayed is reverse mode over a replay. Numerical is the
difference of two replays, along one random direction of all leaves at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ipy_autogradwatch.prove.replaying import CannotReplay, Joining, Replay, variables
from ipy_autogradwatch.prove.slicing import slice_for
from ipy_autogradwatch.prove.tape import CutKind, Home, Load, Op, Place, Ref, Tape

_LOW = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4, torch.complex64: 1e-4}


@dataclass(slots=True, eq=False)
class Target:
    """A tensor whose gradient was delivered.

    Attributes:
        tensor: The leaf, or an input of ``autograd.grad``. Weak.
        delivered: Its gradient from this backward alone; None for none.
        noise: How far the difference of two sums may be off.
        ref: Where it lies, if it is no leaf.
        place: The line that used it first.
    """

    tensor: weakref.ref[torch.Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype
    delivered: torch.Tensor | None
    noise: float = 0.0
    ref: Ref | None = None
    place: Place | None = None

    @property
    def delivered_norm(self) -> float:
        """Norm of what was delivered."""
        return 0.0 if self.delivered is None else float(self.delivered.norm())


@dataclass(slots=True, eq=False)
class Question:
    """One backward, as a question: is `targets` what the derivative of `roots` is?

    Attributes:
        roots: Where each root lies, and what it was.
        seeds: What backward began with at each root.
        entries: The slice that the roots need.
        raised: Loaded values in double precision, by the load's id; nobody writes them.
    """

    tape: Tape
    roots: tuple[tuple[Ref, torch.Tensor], ...]
    seeds: tuple[torch.Tensor | None, ...]
    targets: tuple[Target, ...]
    entries: list[Load | Op] = field(default_factory=list)
    raised: dict[int, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.entries:
            self.entries = slice_for(self.tape.entries, [ref.view for ref, _ in self.roots])

    def leaf_loads(self) -> list[Load]:
        """Return the loads of leaves in the slice."""
        return [e for e in self.entries if isinstance(e, Load) and e.leaf is not None]

    def loads_of(self, target: Target) -> list[Load]:
        """Return the loads of one leaf: one for each of its epochs."""
        tensor = target.tensor()
        return [e for e in self.leaf_loads() if e.leaf is not None and e.leaf() is tensor]

    def has_stops(self) -> bool:
        """Whether the user stopped a gradient by ``detach`` or ``no_grad`` on the way."""
        cuts = self.tape.cuts
        return any(
            isinstance(e, Op)
            and (
                e.is_stopped
                or any(r.cut >= 0 and cuts[r.cut].kind is CutKind.DETACH for r in e.inputs)
            )
            for e in self.entries
        ) or any(r.cut >= 0 for r, _ in self.roots)


@dataclass(slots=True, eq=False)
class Gradients:
    """What one replay gave.

    Attributes:
        replay: The run, with its graph.
        output: The replayed roots times their seeds, summed.
        by_load: Gradient of each load of a leaf, by the load's id; None for none.
        by_target: Gradient of each target, zeros for none, in double precision.
    """

    replay: Replay
    output: torch.Tensor
    by_load: dict[int, torch.Tensor | None]
    by_target: list[torch.Tensor]


def replay_gradients(
    question: Question,
    *,
    joining: Joining,
    double: bool = True,
    literal_cuts: frozenset[int] = frozenset(),
    literal_writes: Iterable[Op] = (),
    retain: bool = False,
    memory: Mapping[Home, torch.Tensor] | None = None,
) -> Gradients:
    """Return the gradients by reverse mode over a replay.

    Args:
        question: The backward.
        joining: What becomes of cuts.
        double: In double precision.
        literal_cuts: Cuts to leave as they are, by number.
        literal_writes: Writes that are to go unseen, as the user's did.
        retain: Keep the graph of the replay.
        memory: What to put into homes before backward, unseen.

    Raises:
        CannotReplay: An operation failed, forwards or backwards.
    """
    entries = question.entries
    writes = list(literal_writes)
    if writes:
        entries = slice_for(question.tape.entries, [ref.view for ref, _ in question.roots], writes)
    loads = question.leaf_loads()
    shared = question.raised if double and not writes else None
    values = variables(loads, double=double, raised=shared)
    try:
        replay = Replay(
            question.tape,
            entries,
            values,
            joining=joining,
            double=double,
            literal_cuts=literal_cuts,
            literal_writes=frozenset(map(id, writes)),
            raised=shared,
        ).run()
        for home, content in (memory or {}).items():
            replay.overwrite(home, content)
        output = root_value(question, replay)
        wanted: list[torch.Tensor] = list(values.values())
        inner = [None if t.ref is None else replay.get(t.ref) for t in question.targets]
        extra = [t for t in inner if t is not None and t.requires_grad]
        found: list[torch.Tensor | None] = [None] * (len(wanted) + len(extra))
        if output.requires_grad and found:
            found = list(
                torch.autograd.grad(
                    output, [*wanted, *extra], allow_unused=True, retain_graph=retain or None
                )
            )
    except (RuntimeError, TypeError, IndexError) as error:
        if isinstance(error, CannotReplay):
            raise
        raise CannotReplay(f"the replay cannot be differentiated: {error}") from error
    by_load = {key: found[index] for index, key in enumerate(values)}
    rest = iter(found[len(wanted) :])
    by_target = []
    for target, tensor in zip(question.targets, inner, strict=True):
        if tensor is not None:
            part = [next(rest) if tensor.requires_grad else None]
        else:
            part = [by_load.get(id(load)) for load in question.loads_of(target)]
        by_target.append(_summed(target, part))
    return Gradients(replay, output.detach(), by_load, by_target)


def _summed(target: Target, parts: Sequence[torch.Tensor | None]) -> torch.Tensor:
    dtype = torch.complex128 if target.dtype.is_complex else torch.float64
    if len(parts) == 1 and parts[0] is not None and parts[0].layout is torch.strided:
        return parts[0].to(dtype)
    total = torch.zeros(target.shape, dtype=dtype)
    for part in parts:
        if part is not None:
            dense = dense_of(part)
            total = total + dense.to(device=total.device, dtype=dtype).reshape(target.shape)
    return total


def dense_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a gradient with strides; that of a sparse embedding has none."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def root_value(question: Question, replay: Replay) -> torch.Tensor:
    """Return the number whose derivative was asked for."""
    total: torch.Tensor | None = None
    for (ref, _), seed in zip(question.roots, question.seeds, strict=True):
        value = replay.get(ref)
        if seed is not None:
            value = value * seed.to(value.dtype).reshape(value.shape).conj()
        term = value.sum()
        term = term.real if term.is_complex() else term
        total = term if total is None else total + term
    assert total is not None
    return total


def replays_the_value(question: Question, replay: Replay) -> bool:
    """Whether the replayed roots are what the cell computed."""
    for ref, recorded in question.roots:
        value = replay.get(ref).detach()
        tolerance = _LOW.get(recorded.dtype, 1e-9) * 10
        if any(e.function._schema.name == "aten::_to_copy" for e in _ops(question.entries)):
            tolerance = max(tolerance, 5e-2 if _has_half(question.entries) else tolerance)
        wanted = recorded.to(value.dtype)
        if not wanted.numel():
            continue
        if wanted.numel() == 1 and not wanted.is_complex():
            a, b = float(value), float(wanted)
            both_nan = a != a and b != b
            if not (a == b or both_nan or abs(a - b) <= 2 * tolerance * abs(b)):
                return False
            continue
        apart = (value - wanted).abs()
        allowed = tolerance * (wanted.abs().nan_to_num(0.0, 0.0).max() + wanted.abs())
        fine = (apart <= allowed) | (value == wanted) | (value.isnan() & wanted.isnan())
        if not bool(fine.all()):
            return False
    return True


def _ops(entries: Iterable[Load | Op]) -> Iterable[Op]:
    return (entry for entry in entries if isinstance(entry, Op))


def _has_half(entries: Iterable[Load | Op]) -> bool:
    halves = (torch.float16, torch.bfloat16)
    return any(v is not None and v[4] in halves for e in _ops(entries) for v in e.outputs)


def quiet() -> ExitStack:
    """Return a context in which nothing of the user's modes and hooks is on."""
    stack = ExitStack()
    stack.enter_context(_disable_current_modes())
    stack.enter_context(torch.enable_grad())
    if torch.is_inference_mode_enabled():
        stack.enter_context(torch.inference_mode(False))
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            stack.enter_context(torch.autocast(device, enabled=False))
    if torch.is_anomaly_enabled():
        stack.enter_context(torch.autograd.set_detect_anomaly(False))
    return stack
