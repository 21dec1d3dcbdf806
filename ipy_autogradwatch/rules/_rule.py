"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ipy_autogradwatch.model import CellRecord, Finding, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """A named problem, the explanation shown for it, and the check that finds it.

    The text is part of the rule rather than of a manual, so that the message, the page in
    the docs and ``%autogradwatch explain`` cannot drift apart; and the examples are cells
    that the test suite runs.

    Attributes:
        code: ``AGW`` and three digits. The first digit is the family: 1 ``.data``, 2 cuts
            and zero gradients, 3 leaves, gradients, memory, 4 errors explained, 5 proof.
            A code is never reused.
        name: The problem in two to four words, hyphenated: what went wrong, not what to do.
        summary: The problem in one sentence, for lists.
        why: What happens, and why no error says so. Full sentences.
        bad: A cell, complete with imports, in which the check finds this rule exactly once
            and no other rule but, at a ``.data`` line, a note of the family AGW1xx.
        good: The same cell put right. No rule finds anything in it.
        near_miss: A cell that looks like `bad` and is none: this rule finds nothing in it.
        then: A second cell that is run after each of the three, for a problem that only shows
            when something else happens. Empty for most rules.
        sources: Where the claim can be checked: a page of PyTorch's docs, or a file and
            function in its source.
        check: Yields a finding per problem. Pure: it reads the record and nothing else, so
            that a test needs no torch.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    bad: str
    good: str
    near_miss: str
    sources: tuple[str, ...]
    check: Callable[[CellRecord], Iterable[Finding]]
    then: str = ""
