"""Tab completion of %autogradwatch and its settings, where IPython has matchers (8.6)."""

from __future__ import annotations

import re
from typing import Any

from IPython.core import completer
from IPython.core.interactiveshell import InteractiveShell

from ipy_autogradwatch.notebook.config import REPORTS
from ipy_autogradwatch.rules import all_rules

COMMANDS = ("on", "off", "status", "explain", "ignore", "report")

_LINE = re.compile(r"^\s*%autogradwatch\s+(.*?)(\S*)$")
_REPORT = re.compile(r"""^\s*%config\s+AutogradWatch\.report\s*=\s*(['"]?\w*)$""")


def add_matcher(shell: InteractiveShell) -> Any:
    """Teach *shell* our words. Return what `remove_matcher` takes back, or None."""
    matchers = getattr(getattr(shell, "Completer", None), "custom_matchers", None)
    # IPython 7 has the list as well, of matchers of another kind.
    context_matcher: Any = getattr(completer, "context_matcher", None)
    if matchers is None or context_matcher is None:
        return None
    simple_completion: Any = completer.SimpleCompletion

    def match(context: Any) -> dict[str, Any]:
        words, fragment = words_for(context.line_with_cursor[: context.cursor_position])
        fitting = [simple_completion(w, type="param") for w in words if w.startswith(fragment)]
        if not fitting:
            return {"completions": []}
        return {"completions": fitting, "suppress": True, "matched_fragment": fragment}

    matcher = context_matcher(identifier="ipy_autogradwatch")(match)
    matchers.append(matcher)
    return matcher


def remove_matcher(shell: InteractiveShell, matcher: Any) -> None:
    """Undo `add_matcher`."""
    matchers = getattr(getattr(shell, "Completer", None), "custom_matchers", None)
    if matchers is not None:
        matchers[:] = [other for other in matchers if other is not matcher]


def words_for(line: str) -> tuple[tuple[str, ...], str]:
    """Return the words that may follow, and the beginning of one that *line* ends with."""
    config = _REPORT.match(line)
    if config is not None:
        return tuple(f"'{choice}'" for choice in REPORTS), config[1]
    match = _LINE.match(line)
    if match is None:
        return (), ""
    before, fragment = match[1].split(), match[2]
    if not before:
        return COMMANDS, fragment
    if before[0] in ("explain", "ignore"):
        return tuple(rule.code for rule in all_rules()), fragment
    if before[0] == "report":
        return REPORTS, fragment
    return (), fragment
