"""Record the operations of a cell, below autograd."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch.autograd.function import FunctionCtx
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from ipy_autogradwatch.fence import Fence
from ipy_autogradwatch.prove.aten import known_facts
from ipy_autogradwatch.prove.calls import new_call
from ipy_autogradwatch.prove.lines import Lines, Origin
from ipy_autogradwatch.prove.slicing import slice_for
from ipy_autogradwatch.prove.tape import (
    NO_CUT,
    Cut,
    CutKind,
    FunctionCall,
    Home,
    Load,
    Op,
    Place,
    Ref,
    Tape,
    View,
)
from ipy_autogradwatch.prove.tensors import (
    all_leaves,
    flat_items,
    has_memory,
    is_true_leaf,
    tensors_in,
    view_of,
    whole,
    written_by,
)

STAGE = "gradcheck"
MAX_OPS = 200_000


def keep_dynamo_out() -> None:
    """Let torch.compile not look into the recorder. Imports torch._dynamo, which takes a second."""
    if "__wrapped__" not in vars(Recorder.__torch_dispatch__):
        Recorder.__torch_dispatch__ = _disable_dynamo(  # type: ignore[method-assign]
            Recorder.__torch_dispatch__, recursive=True
        )


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes a `Tape` while it is on. The operation itself runs once, as it was asked for."""

    lines: Lines
    """Of the cell that is running."""

    def __init__(self, fence: Fence, max_bytes: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = Tape()
        self.paused = False
        self._fence = fence
        self._max_bytes = max_bytes
        self._pid = os.getpid()
        self._bytes = 0
        self._connected: set[Home] = set()
        self._loads: dict[Home, list[Load]] = {}
        self._leaf_at: dict[View, Load] = {}
        self._cuts_of: dict[View, int] = {}
        self._calls: dict[int, FunctionCall] = {}
        self._op: Op | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Else every first check would import it: see `keep_dynamo_out`.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run *func*; the rest is notes."""
        __tracebackhide__ = True
        kwargs = kwargs or {}
        if self.paused or self.tape.stopped:
            return func(*args, **kwargs)
        self._op = None
        self._fence.call(STAGE, self._before, func, args, kwargs)
        op = self._op
        result = func(*args, **kwargs)
        if op is not None:
            self._fence.call(STAGE, self._after, func, op, args, result)
        return result

    # Before the operation.

    def _before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        facts = known_facts(func)
        if facts.ignores_values:
            return
        tensors = [*tensors_in(args), *tensors_in(kwargs.values())]
        if any(map(is_lazy, tensors)):
            return  # A parameter without a shape: this makes it one.
        if any(t.layout is torch.strided and not has_memory(t) for t in tensors):
            self.stop("the cell uses tensors without memory (meta, fake or compiled)")
            return
        if os.getpid() != self._pid:
            self.paused = True  # A worker that was forked while the cell ran.
            return
        written = written_by(facts, args, kwargs)
        views = [view_of(t) for t in tensors]
        if not self._is_connected(tensors, views):
            for tensor in written:
                self._overwrite(tensor)
            return
        grad_off = not torch.is_grad_enabled()
        origin = self.lines.origin(3, may_be_forward=grad_off)
        if facts.is_detach:
            self._note_detach(args[0], origin)
            return
        if grad_off and (origin.in_optimizer or all_leaves(written)):
            for tensor in written:
                self._overwrite(tensor)
            return
        self._op = self._new_op(func, args, kwargs, written, origin, grad_off)

    def _new_op(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: list[torch.Tensor],
        origin: Origin,
        grad_off: bool,
    ) -> Op:
        call = self._call(origin) if origin.apply is not None else None
        refs: list[Ref] = []
        arguments = tuple(self._argument(a, refs, origin.place) for a in args)
        keywords = {name: self._argument(a, refs, origin.place) for name, a in kwargs.items()}
        views = {view_of(t) for t in written}
        for tensor in written:
            self._keep_value(view_of(tensor)[0])
        return Op(
            function=func,
            arguments=arguments,
            keywords=keywords,
            inputs=tuple(refs),
            written=tuple(ref for ref in refs if ref.view in views),
            is_stopped=grad_off and call is None,
            call=call,
            place=origin.place,
        )

    def _is_connected(self, tensors: list[torch.Tensor], views: list[View]) -> bool:
        connected = self._connected
        for view in views:
            if view[0] in connected:
                return True
        return any(t.requires_grad for t in tensors)

    def _argument(self, value: Any, refs: list[Ref], place: Place | None) -> Any:
        if isinstance(value, torch.Tensor):
            ref = self.read(value, place)
            refs.append(ref)
            return ref
        if type(value) in (list, tuple):
            return [self._argument(item, refs, place) for item in value]
        if type(value) is float and self.tape.exits:
            self._note_return(value, place)
        return value

    def read(self, tensor: torch.Tensor, place: Place | None = None) -> Ref:
        """Return *tensor* as an argument; the first look at a value puts it on the tape."""
        view = view_of(tensor)
        home = view[0]
        needs_grad = tensor.requires_grad
        is_leaf = needs_grad and is_true_leaf(tensor)
        if home not in self.tape.memory:
            self._load(tensor, view, place, is_leaf=is_leaf)
        elif is_leaf:
            known = self._leaf_at.get(view)
            if known is None or known.leaf is None or known.leaf() is not tensor:
                self._load(tensor, view, place, is_leaf=True)
        elif not needs_grad and self._is_frozen(tensor, view):
            del self._leaf_at[view]
            self._load(tensor, view, place, is_leaf=False)
        if needs_grad:
            self._look_at(tensor, view, is_leaf=is_leaf)
            return Ref(view, NO_CUT, is_foreign=home not in self._connected)
        return Ref(view, self._cuts_of.get(view, NO_CUT))

    def _is_frozen(self, tensor: torch.Tensor, view: View) -> bool:
        """Whether *tensor*, which requires no grad, was read as a leaf before."""
        load = self._leaf_at.get(view)
        return load is not None and load.leaf is not None and load.leaf() is tensor

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether how *tensor* came about is on the tape, or it is a leaf."""
        if is_true_leaf(tensor):
            return True
        return view_of(tensor)[0] in self._connected

    def _look_at(self, tensor: torch.Tensor, view: View, *, is_leaf: bool) -> None:
        hooks = tensor._backward_hooks
        if hooks:
            for hook in list(hooks.values()):
                self.tape.hooked[self.lines.place_of(hook)] = getattr(hook, "__name__", "hook")
        if self._calls and not is_leaf:
            node: Any = tensor.grad_fn
            if isinstance(node, FunctionCtx):
                call = self._calls.get(node._sequence_nr())  # type: ignore[attr-defined]
                if call is not None and call.output is None:
                    call.output = Ref(view, NO_CUT)

    def _load(
        self, tensor: torch.Tensor, view: View, place: Place | None, *, is_leaf: bool
    ) -> None:
        home = view[0]
        known = tensor.detach()
        load = Load(view, known, weakref.ref(tensor) if is_leaf else None, place=place)
        self._hold(home, tensor, known)
        self.tape.entries.append(load)
        self._loads.setdefault(home, []).append(load)
        if is_leaf:
            self._leaf_at[view] = load
            self._connected.add(home)
        else:
            self._connected.discard(home)

    def _hold(self, home: Home, tensor: torch.Tensor, known: Any) -> None:
        if home in self.tape.memory:
            return
        strided = tensor.layout is torch.strided
        self.tape.memory[home] = tensor.untyped_storage() if strided else tensor
        size = tensor.untyped_storage().nbytes() if strided else 0
        self.tape.sizes[home] = size
        self._bytes += size
        if self._bytes > self._max_bytes or len(self.tape.entries) > MAX_OPS:
            self.stop(
                "too large: the recorded tensors do not fit into AutogradWatch.max_tape_bytes"
            )

    def _keep_value(self, home: Home) -> None:
        """Copy what was loaded from *home*: its memory is about to be written."""
        for load in self._loads.pop(home, ()):
            self._leaf_at.pop(load.view, None)
            if load.copied:
                continue
            load.copied = True
            if load.value.layout is torch.strided:
                _, offset, shape, stride, _, _ = load.view
                load.value = torch.as_strided(whole(load.value).clone(), shape, stride, offset)
            else:
                load.value = load.value.clone()

    def _overwrite(self, tensor: torch.Tensor) -> None:
        """Something that is not recorded writes *tensor*: it is a new value from here on."""
        self.forget_home(view_of(tensor)[0])

    def forget_home(self, home: Home) -> None:
        """Load *home* anew when it is read next."""
        if home in self.tape.memory:
            self._keep_value(home)
            # Still held: what was recorded before needs the address to stay its own.
            self.tape.retired.append(self.tape.memory.pop(home))
            self._bytes -= self.tape.sizes.get(home, 0)
            self._connected.discard(home)

    def _note_detach(self, tensor: torch.Tensor, origin: Origin) -> None:
        kind = self.lines.cut_kind(origin.caller)
        ref = self.read(tensor, origin.place)
        if kind is None or ref.cut != NO_CUT:
            return  # Autograd saving a result; or an alias of an alias.
        if tensor.requires_grad or ref.view[0] in self._connected:
            self._cuts_of[ref.view] = len(self.tape.cuts)
            self.tape.cuts.append(Cut(kind, origin.place, ref.view[0]))

    def _call(self, origin: Origin) -> FunctionCall | None:
        """Return the call of a custom Function that runs in ``origin.apply``."""
        sequence = torch._C._autograd._get_sequence_nr() - 1
        known = self._calls.get(sequence)
        if known is None:
            known = self._calls[sequence] = new_call(origin.apply, sequence, self.lines, self.read)
            self.tape.calls.append(known)
        return known

    def _note_return(self, value: float, place: Place | None) -> None:
        for number, left in self.tape.exits:
            # A number that somebody typed has few digits; one that was computed has many.
            if number == value and float(f"{value:.6g}") != value:
                self.tape.returns.append((left, place))
                return

    # After the operation.

    def _after(self, func: Any, op: Op, args: tuple[Any, ...], result: Any) -> None:
        facts = known_facts(func)
        if facts.is_exit:
            if len(self.tape.exits) < 1000 and isinstance(result, float):
                self.tape.exits.append((result, op.place))
            return
        results = [result] if isinstance(result, torch.Tensor) else list(flat_items(result))
        homes = {ref.view[0] for ref in op.inputs}
        # Not facts.is_alias alone: ``unsafe_split`` says that it makes no views, and does.
        op.is_alias = facts.is_alias or any(
            isinstance(t, torch.Tensor) and view_of(t)[0] in homes for t in results
        )
        cut = op.inputs[0].cut if op.is_alias and op.inputs else NO_CUT
        if op.is_alias and op.is_stopped and cut == NO_CUT and not op.written:
            # A view that was made under no_grad: its elements are those of the graph.
            op.is_stopped, cut = False, len(self.tape.cuts)
            self.tape.cuts.append(Cut(CutKind.DETACH, op.place, op.inputs[0].view[0]))
        views: list[View | None] = []
        for tensor in results:
            if not isinstance(tensor, torch.Tensor):
                views.append(None)
                continue
            view = view_of(tensor)
            views.append(view)
            if cut != NO_CUT:
                self._cuts_of[view] = cut
            self._hold(view[0], tensor, None)
            self._connected.add(view[0])
        self._connected.update(ref.view[0] for ref in op.written)
        op.outputs = tuple(views)
        if facts.draws(op.arguments, op.keywords):
            written = written_by(facts, args, {}) if facts.name == "aten::rrelu_with_noise" else []
            drawn = [*results, *written]
            op.constant = tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in drawn)
        self.tape.entries.append(op)

    def stop(self, reason: str) -> None:
        """Record nothing more, and give back what was held."""
        self.tape.stopped = reason
        self.tape.entries.clear()
        self.tape.memory.clear()
        self.tape.retired.clear()
        self._loads.clear()
        self._connected.clear()

    def collect(self) -> None:
        """Keep what still decides a tensor that somebody else than the tape holds."""
        tape = self.tape
        aliases = Counter(e.home for e in tape.entries if isinstance(e, Load) and not e.copied)
        alive: list[View] = []
        for entry in tape.entries:
            if isinstance(entry, Op):
                for view in entry.outputs:
                    if view is not None and self._is_held(view[0], aliases[view[0]]):
                        alive.append(view)
        kept = set(map(id, slice_for(tape.entries, alive)))
        self.drop([entry for entry in tape.entries if id(entry) not in kept])

    def _is_held(self, home: Home, aliases: int) -> bool:
        memory = self.tape.memory.get(home)
        if not isinstance(memory, torch.UntypedStorage):
            return memory is not None
        count: int = torch._C._storage_Use_Count(memory._cdata)
        return count > 1 + aliases

    def drop(self, entries: Iterable[Load | Op]) -> None:
        """Take *entries* off the tape; what they made counts as given when it is read next."""
        dropped = {id(entry) for entry in entries if isinstance(entry, Op)}
        homes: set[Home] = set()
        kept: list[Load | Op] = []
        for entry in self.tape.entries:
            if isinstance(entry, Load):
                homes.discard(entry.home)
                kept.append(entry)
            elif id(entry) in dropped or any(ref.view[0] in homes for ref in entry.inputs):
                homes.update(entry.homes())
            else:
                kept.append(entry)
        read = {r.view[0] for e in kept if isinstance(e, Op) for r in e.inputs}
        self.tape.entries = [e for e in kept if isinstance(e, Op) or e.home in read]
        self._sweep(homes)

    def _sweep(self, homes: set[Home]) -> None:
        used = {entry.home for entry in self.tape.entries if isinstance(entry, Load)}
        for entry in self.tape.entries:
            if isinstance(entry, Op):
                used.update(entry.homes())
        memory = self.tape.memory
        for home in [h for h in memory if h in homes or h not in used]:
            del memory[home]
            self._bytes -= self.tape.sizes.pop(home, 0)
            for load in self._loads.pop(home, ()):
                self._leaf_at.pop(load.view, None)
            self._connected.discard(home)
        self._cuts_of = {v: cut for v, cut in self._cuts_of.items() if v[0] in memory}
        if not self.tape.entries:
            self.tape.retired.clear()
            self._calls.clear()
