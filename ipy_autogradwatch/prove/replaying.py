"""Run a recorded computation again, from the values of its leaves.

Nothing is written in place: an operation that writes makes a new content of its home, so
that what an earlier operation saved stays what it was. That is what makes the replayed
gradient the true one where the user's own was computed from overwritten memory.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ipy_autogradwatch.prove.aten import known_facts
from ipy_autogradwatch.prove.contents import CannotReplay, Contents, higher
from ipy_autogradwatch.prove.drawing import IMPLICIT, RRELU, drawn
from ipy_autogradwatch.prove.tape import NO_CUT, CutKind, Home, Load, Op, Ref, Tape

__all__ = ["CannotReplay", "Joining", "Replay", "variables"]


class Joining(enum.Enum):
    """What becomes of cuts in a replay."""

    AS_WRITTEN = "as written"
    """``detach`` and ``no_grad`` stop gradients; every other cut is joined."""
    ALL = "all"
    """Every cut is joined."""


class Replay:
    """One run of a slice of a tape.

    Attributes:
        fallbacks: Names of operations that differences say nothing about: they have no double
            precision and ran without, or draw random numbers and have a gradient.
        made: Result of each operation, if asked to keep them.
    """

    def __init__(
        self,
        tape: Tape,
        entries: Sequence[Load | Op],
        values: Mapping[int, torch.Tensor],
        *,
        joining: Joining,
        double: bool = True,
        literal_cuts: frozenset[int] = frozenset(),
        literal_writes: frozenset[int] = frozenset(),
        keep: bool = False,
        raised: dict[int, torch.Tensor] | None = None,
    ) -> None:
        self.fallbacks: set[str] = set()
        self.made: list[tuple[Op, tuple[torch.Tensor, ...], tuple[Any, ...]]] = []
        self.inputs_of_calls: dict[int, tuple[torch.Tensor | None, ...]] = {}
        self.outputs_of_calls: dict[int, torch.Tensor] = {}
        self._tape = tape
        self._entries = entries
        self._values = values
        self._joining = joining
        self._double = double
        self._literal_cuts = literal_cuts
        self._literal_writes = literal_writes
        self._keep = keep
        self._contents = Contents(tape, double=double, raised=raised)
        self._outputs = {
            call.output.view: call.sequence for call in tape.calls if call.output is not None
        }

    def run(self) -> Replay:
        """Run all of it.

        Raises:
            CannotReplay: An operation failed.
        """
        for entry in self._entries:
            if isinstance(entry, Load):
                self._contents.load(entry, self._values.get(id(entry)))
            else:
                self._op(entry)
        return self

    def get(self, ref: Ref) -> torch.Tensor:
        """Return what *ref* stands for now."""
        value = self._contents.view(ref.view)
        if ref.cut != NO_CUT and value.requires_grad and self._stops(ref.cut):
            return value.detach()
        return value

    def _stops(self, cut: int) -> bool:
        if cut in self._literal_cuts:
            return True
        kind = self._tape.cuts[cut].kind
        return self._joining is Joining.AS_WRITTEN and kind is CutKind.DETACH

    # Operations.

    def _op(self, op: Op) -> None:
        call = op.call
        if call is not None and call.sequence not in self.inputs_of_calls:
            self.inputs_of_calls[call.sequence] = tuple(
                None if ref is None else self._known(ref) for ref in call.inputs
            )
        if op.written and known_facts(op.function).name != RRELU:
            self._write(op)
            return
        stopped = op.is_stopped and self._joining is Joining.AS_WRITTEN
        if op.constant is not None:
            results = self._draw(op)
        else:
            results = self._call(op, self._filled(op), stopped=stopped)
        if stopped:
            results = tuple(r.detach() if isinstance(r, torch.Tensor) else r for r in results)
        self._put(op, results)

    def _known(self, ref: Ref) -> torch.Tensor | None:
        return self._contents.view(ref.view) if self._contents.has(ref.view[0]) else None

    def _put(self, op: Op, results: tuple[Any, ...]) -> None:
        for view, result in zip(op.outputs, results, strict=True):
            if view is None or not isinstance(result, torch.Tensor):
                continue
            if self._double and higher(result.dtype) != result.dtype:
                result = result.to(higher(result.dtype))
            if op.is_alias:
                self._contents.put_alias(view, result)
            else:
                self._contents.put(view, result)
            if view in self._outputs:
                self.outputs_of_calls[self._outputs[view]] = result
        if self._keep:
            inputs = tuple(self.get(ref) for ref in op.inputs)
            self.made.append((op, inputs, results))

    def _draw(self, op: Op) -> tuple[Any, ...]:
        name = known_facts(op.function).name
        if name in IMPLICIT:
            self.fallbacks.add(name.removeprefix("aten::"))
        return drawn(op, self.get(op.inputs[0]), self._contents)

    def content(self, home: Home) -> torch.Tensor:
        """Return all of *home*, flat."""
        return self._contents.content(home)

    def overwrite(self, home: Home, content: torch.Tensor) -> None:
        """Put *content* into the very memory that operations have saved, unseen."""
        with torch.no_grad():
            self._contents.content(home).data.copy_(content)

    def _filled(self, op: Op) -> tuple[tuple[Any, ...], dict[str, Any]]:
        fill = self._fill
        return tuple(map(fill, op.arguments)), {n: fill(a) for n, a in op.keywords.items()}

    def _fill(self, argument: Any) -> Any:
        if type(argument) is Ref:
            return self.get(argument)
        if type(argument) is list:
            return [self._fill(item) for item in argument]
        if self._double and type(argument) is torch.dtype:
            return higher(argument)
        return argument

    def _call(
        self, op: Op, filled: tuple[tuple[Any, ...], dict[str, Any]], *, stopped: bool = False
    ) -> tuple[Any, ...]:
        arguments, keywords = filled
        try:
            if stopped:
                with torch.no_grad():
                    result = op.function(*arguments, **keywords)
            else:
                result = op.function(*arguments, **keywords)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if not self._double:
                raise CannotReplay(f"{_name(op)} cannot be run again: {error}") from error
            result = self._call_lower(op, arguments, keywords)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def _call_lower(self, op: Op, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run *op* in single precision: some kernels (oneDNN's) have no double."""
        try:
            result = op.function(
                *map(_lower, arguments), **{n: _lower(a) for n, a in keywords.items()}
            )
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise CannotReplay(f"{_name(op)} cannot be run again: {error}") from error
        self.fallbacks.add(_name(op))
        return result

    # Writing.

    def _write(self, op: Op) -> None:
        if id(op) in self._literal_writes:
            self._write_unseen(op)
            return
        cut = self._write_is_cut(op)
        homes = {ref.view[0] for ref in op.written}
        old = {home: self._contents.content(home) for home in homes}
        base = {home: (flat.detach() if cut else flat).clone() for home, flat in old.items()}
        with torch.set_grad_enabled(not cut):
            target = {id(r): self._contents.as_view(base[r.view[0]], r.view) for r in op.written}
            self._run_writing(op, target, detach_others=cut)
        for home, flat in base.items():
            if cut and old[home].requires_grad:
                flat = old[home] + (flat - old[home].detach())
            self._contents.put_flat(home, flat)
        for view in op.outputs:
            if view is not None and view[0] not in homes:
                raise CannotReplay(f"{_name(op)} writes and returns something else")
        if self._keep:
            made = tuple(self._contents.view(ref.view) for ref in op.written)
            self.made.append((op, tuple(self.get(ref) for ref in op.inputs), made))

    def _write_is_cut(self, op: Op) -> bool:
        if self._joining is not Joining.AS_WRITTEN:
            return False
        return op.is_stopped or any(
            ref.cut != NO_CUT and self._stops(ref.cut) for ref in op.written
        )

    def _run_writing(self, op: Op, target: dict[int, torch.Tensor], *, detach_others: bool) -> None:
        def fill(argument: Any) -> Any:
            if type(argument) is Ref:
                if id(argument) in target:
                    return target[id(argument)]
                value = self.get(argument)
                return value.detach() if detach_others else value
            if type(argument) is list:
                return [fill(item) for item in argument]
            return higher(argument) if self._double and type(argument) is torch.dtype else argument

        if op.constant is not None:
            for ref, value in zip(op.written, op.constant, strict=False):
                target[id(ref)].copy_(self._contents.raise_(value))
            return
        arguments = tuple(map(fill, op.arguments))
        keywords = {name: fill(argument) for name, argument in op.keywords.items()}
        outs = known_facts(op.function).written_keywords
        if outs:
            # No derivative goes through ``out=``: compute it, and copy.
            kept = {name: value for name, value in keywords.items() if name not in outs}
            results = self._packet(op, arguments, kept)
            for name, result in zip(outs, results, strict=False):
                keywords[name].copy_(result)
            return
        self._call(op, (arguments, keywords))

    def _packet(self, op: Op, arguments: Any, keywords: Any) -> tuple[Any, ...]:
        try:
            result = op.function.overloadpacket(*arguments, **keywords)
        except (RuntimeError, TypeError) as error:
            raise CannotReplay(f"{_name(op)} cannot be run again: {error}") from error
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def _write_unseen(self, op: Op) -> None:
        """Write into the very memory that earlier operations have saved, as the user did."""
        with torch.no_grad():
            target = {id(ref): self._contents.view(ref.view).data for ref in op.written}
            self._run_writing(op, target, detach_others=True)


def _lower(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
        return value.float()
    if isinstance(value, torch.Tensor) and value.dtype is torch.complex128:
        return value.to(torch.complex64)
    if isinstance(value, list):
        return [_lower(item) for item in value]
    return torch.float32 if value is torch.float64 else value


def _name(op: Op) -> str:
    return str(op.function._schema.name).removeprefix("aten::")


def variables(
    loads: Iterable[Load], *, double: bool = True, raised: dict[int, torch.Tensor] | None = None
) -> dict[int, torch.Tensor]:
    """Return a fresh leaf for each load of a leaf, by the load's id.

    Args:
        loads: Of leaves, and of others, which are left out.
        double: In double precision.
        raised: Values that were converted before; what is converted here is added. Its
            memory is shared, so nothing may be written into the leaves.
    """
    made = {}
    for load in loads:
        if load.leaf is None:
            continue
        value = None if raised is None else raised.get(id(load))
        if value is None:
            value = load.value.detach()
            value = value.to(higher(value.dtype) if double else value.dtype, copy=True)
            if raised is not None:
                raised[id(load)] = value
        made[id(load)] = value.detach().requires_grad_()
    return made
