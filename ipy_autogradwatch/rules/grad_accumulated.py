"""AGW301 gradient-not-cleared: backward adds to the gradient of an earlier step."""

from __future__ import annotations

from collections.abc import Iterator

from ipy_autogradwatch.model import BackwardCall, CellRecord, Finding, Severity
from ipy_autogradwatch.rules._rule import Rule
from ipy_autogradwatch.rules._site import finding_at, listed
from ipy_autogradwatch.rules._source import Program, Statement
from ipy_autogradwatch.rules._steps import Event, Holders, events

SAMPLED = 4
"""Hits of a site up to which each was looked at."""


def check(record: CellRecord) -> Iterator[Finding]:
    suspects = [call for call in record.backwards if call.uncleared and call.site.cell is not None]
    if not suspects:
        return
    use = _Use(record)
    for call in suspects:
        leaves = tuple(leaf for leaf in call.uncleared if use.is_of_stale_gradient(leaf, call))
        if not leaves:
            continue
        verb = "has" if len(leaves) == 1 else "have"
        yield finding_at(
            RULE,
            call.site,
            headline=f"{listed(leaves)} still {verb} the gradient of the step before: "
            "this backward adds to it",
            why="Backward never clears `.grad`. After an update the old gradient is that of other "
            "weights, and the sum is the gradient of nothing.",
            instead="optimizer.zero_grad() before this backward (or w.grad = None)",
            evidence=(
                ("cleared since the update", "no: the same tensor, written by backward only"),
            ),
            variables=leaves,
            hits=call.hits,
        )


class _Use:
    """Whether a gradient that was added to an old one is used before it is cleared.

    A generator's step leaves gradients in the discriminator, and an attack in the network
    that it attacks: the next step of these clears them first, and nothing is wrong.
    """

    def __init__(self, record: CellRecord) -> None:
        self._record = record
        self._program = Program(record.sources)
        self._holders = Holders(record, self._program)

    def is_of_stale_gradient(self, leaf: str, call: BackwardCall) -> bool:
        at = self._at(call)
        if at is None:
            return False
        around = list(events(self._program, at))
        if leaf not in self._record.after:
            # A leaf of a function that has returned: the source alone has to tell.
            return not any(e.clears for e in around) and any(not e.clears for e in around)
        if not self._is_read(leaf) and not self._is_stepped(leaf):
            return False
        if any(self._is_cleared_before(leaf, other) for other in self._others(leaf, call)):
            return False
        if not self._is_certain(leaf, call, at, around):
            return False
        return self._next_is_no_clearing(leaf, at, around)

    def _at(self, call: BackwardCall) -> Statement | None:
        cell = call.site.cell
        return None if cell is None else self._program.at(cell, call.site.span.line)

    def _others(self, leaf: str, call: BackwardCall) -> Iterator[BackwardCall]:
        for other in self._record.backwards:
            if other is not call and leaf in other.reaches and leaf not in other.uncleared:
                yield other

    def _is_read(self, leaf: str) -> bool:
        owner = leaf.partition(".")[0].partition("[")[0]
        return any(
            read.endswith(".grad") and read.partition(".")[0] == owner
            for statement in self._program.statements(self._record.cell)
            for read in statement.reads
        )

    def _is_stepped(self, leaf: str) -> bool:
        """Whether this cell has updated *leaf*, and by its gradient as far as that is known."""
        before, after = self._record.before.get(leaf), self._record.after[leaf]
        is_same = before is not None and before.identity == after.identity
        if is_same and before is not None and before.version == after.version:
            return False
        return self._holders.in_optimizer(leaf) or not self._holders.optimizers

    def _is_cleared_before(self, leaf: str, call: BackwardCall) -> bool:
        """Whether the source clears *leaf* above *call*, whose gradient it steps with."""
        at = self._at(call)
        return at is not None and any(
            event.clears
            and event.statement.line <= at.line
            and event.statement.loops == at.loops[: len(event.statement.loops)]
            and self._holders.holds(event.receiver, leaf, at) is not False
            for event in events(self._program, at)
        )

    def _is_certain(
        self, leaf: str, call: BackwardCall, at: Statement, around: list[Event]
    ) -> bool:
        """Whether it is known that nothing cleared the gradient between two looks at it.

        Few hits are all looked at. Of more, the counter of the gradient tells that nothing but
        backwards has written it, or the loop has no line that could have cleared it.
        """
        if call.hits <= SAMPLED:
            return True
        before, after = self._record.before.get(leaf), self._record.after[leaf]
        if after.grad is not None and after.grad.version is not None:
            hits = sum(c.hits for c in self._record.backwards if leaf in c.reaches)
            old = None if before is None else before.grad
            is_same = old is not None and old.number == after.grad.number
            start = old.version if is_same and old is not None and old.version is not None else -1
            if after.grad.version == start + hits:
                return True
        inner = [e for e in around if e.statement.loops[: len(at.loops)] == at.loops]
        return bool(at.loops) and not any(e.clears for e in inner) and bool(inner)

    def _next_is_no_clearing(self, leaf: str, at: Statement, around: list[Event]) -> bool:
        """Whether, in the order of the source, the gradient is not cleared before it is used."""
        mine = [e for e in around if self._holders.holds(e.receiver, leaf, at) is not False]
        after = [e for e in mine if e.statement.line > at.line]
        if at.loops:
            after += [e for e in mine if e.statement.loops[:1] == at.loops[:1] and e not in after]
        if not after:
            return True
        if after[0].clears:
            return False
        # ``opt.zero_grad(); loss.backward(); opt.step()`` in a function that is given any opt.
        return not any(
            e.clears
            and e.receiver == after[0].receiver
            and e.statement.line <= at.line
            and e.statement.loops == at.loops
            for e in mine
        )


RULE = Rule(
    code="AGW301",
    name="gradient-not-cleared",
    severity=Severity.WRONG,
    summary="Backward adds to a gradient that is left over from the step before.",
    why=(
        "`.grad` is a sum over all backwards since it was cleared. That is wanted when several\n"
        "batches make one step. When the weights were updated in between and nothing cleared\n"
        "the gradient, old and new are added up, and training goes astray without an error.\n"
        "Cells that are run twice do the same to a single backward."
    ),
    bad="""\
import torch
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
""",
    good="""\
import torch
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    w.grad = None
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
""",
    near_miss="""\
import torch
w = torch.ones(2, requires_grad=True)
for step in range(6):
    (w * w).sum().backward()
    if step % 3 == 2:      # one update for three batches
        with torch.no_grad():
            w -= 0.1 * w.grad / 3
        w.grad = None
""",
    sources=("<https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html>",),
    check=check,
)
