"""The first operation that made NaN or Inf of finite numbers, forwards or backwards."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ipy_autogradwatch.prove.aten import known_facts
from ipy_autogradwatch.prove.comparing import Question, root_value
from ipy_autogradwatch.prove.replaying import CannotReplay, Joining, Replay, variables
from ipy_autogradwatch.prove.tape import Op, Place

_CHOOSES = ("aten::where", "aten::masked_fill", "aten::masked_fill_", "aten::masked_select")


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Where it began.

    Attributes:
        sentence: What happened there, as the rest of a sentence.
        places: The operation's line, and that of a ``where`` which was to hide it.
        is_backward: It is the derivative that is not finite; the value was.
    """

    sentence: str
    places: tuple[Place, ...]
    is_backward: bool
    name: str = ""


def first_nonfinite(question: Question) -> NonFinite | None:
    """Return where NaN or Inf came up first, or None if it does not in a replay."""
    values = variables(question.leaf_loads(), double=False)
    try:
        replay = Replay(
            question.tape,
            question.entries,
            values,
            joining=Joining.AS_WRITTEN,
            double=False,
            keep=True,
        ).run()
        output = root_value(question, replay)
    except CannotReplay:
        return None
    return _backwards(replay, output) if _is_finite(output) else _forwards(replay)


def _is_finite(tensor: torch.Tensor) -> bool:
    floating = tensor.is_floating_point() or tensor.is_complex()
    return not floating or bool(tensor.detach().isfinite().all())


def _forwards(replay: Replay) -> NonFinite | None:
    for op, inputs, results in replay.made:
        made = [r for r in results if isinstance(r, torch.Tensor)]
        if all(map(_is_finite, inputs)) and not all(map(_is_finite, made)):
            name = _name(op)
            return NonFinite(
                f"`{name}` of finite numbers is not finite{_at(op.place)}", _places(op), False, name
            )
    return None


def _backwards(replay: Replay, output: torch.Tensor) -> NonFinite | None:
    steps = [
        (op, inputs, [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad])
        for op, inputs, results in replay.made
    ]
    every: dict[int, torch.Tensor] = {}
    for _, inputs, results in steps:
        every.update((id(t), t) for t in (*inputs, *results) if t.requires_grad)
    if not output.requires_grad or not every:
        return None
    found = torch.autograd.grad(output, list(every.values()), allow_unused=True, retain_graph=True)
    gradient: dict[int, torch.Tensor | None] = dict(zip(every, found, strict=True))
    for op, inputs, results in reversed(steps):
        if _breaks(inputs, results, gradient):
            hiding = _hidden_by(replay, op)
            name = _name(op)
            sentence = f"the derivative of `{name}`{_at(op.place)} is not finite there"
            if hiding is not None:
                sentence += (
                    f"; `{_name(hiding)}`{_at(hiding.place)} hides the value, but 0 * inf is NaN "
                    "in its gradient"
                )
            places = dict.fromkeys(_places(op) + (() if hiding is None else _places(hiding)))
            return NonFinite(sentence, tuple(places), True, name)
    return None


def _breaks(
    inputs: tuple[torch.Tensor, ...],
    results: list[torch.Tensor],
    gradient: dict[int, torch.Tensor | None],
) -> bool:
    """Whether this operation's derivative turns a finite gradient into one that is not."""
    given = [(t, gradient.get(id(t))) for t in results]
    used = [(t, g) for t, g in given if g is not None]
    asked = [t for t in inputs if t.requires_grad]
    if not used or not asked or not all(_is_finite(g) for _, g in used):
        return False
    arrived = [gradient.get(id(t)) for t in asked]
    if all(g is None or _is_finite(g) for g in arrived):
        return False
    # An input's gradient is the sum over all that use it: ask this one alone.
    own: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
        [t for t, _ in used], asked, [g for _, g in used], allow_unused=True, retain_graph=True
    )
    return not all(g is None or _is_finite(g) for g in own)


def _hidden_by(replay: Replay, culprit: Op) -> Op | None:
    """Return the ``where`` that came after *culprit*, if there is one."""
    after = False
    for op, _, _ in replay.made:
        if op is culprit:
            after = True
        elif after and known_facts(op.function).name in _CHOOSES:
            return op
    return None


def _name(op: Op) -> str:
    return known_facts(op.function).name.removeprefix("aten::")


def _places(op: Op) -> tuple[Place, ...]:
    return () if op.place is None else (op.place,)


def _at(place: Place | None) -> str:
    return "" if place is None else f" (line {place[1]})"
