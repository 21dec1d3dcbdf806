"""Settings: ``%config AutogradWatch``, configuration files, the command line."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets import Bool, Enum, Int, List, TraitError, Unicode
from traitlets.config import Configurable

REPORTS = ("changes", "always", "findings", "off")


class AutogradWatch(Configurable):
    """What is watched and what is shown after each cell."""

    enabled = Bool(True, help="Watch new cells.").tag(config=True)
    report = Enum(
        REPORTS,
        default_value="changes",
        help=(
            "What to show after a cell. 'changes': findings, and the tensors and gradients that "
            "changed. 'always': every tensor. 'findings': findings only. 'off': nothing; "
            "ipy_autogradwatch.last_report() still has it."
        ),
    ).tag(config=True)
    ignore = List(Unicode(), help="Codes of rules not to report, as ['AGW101'].").tag(config=True)
    max_tape_bytes = Int(
        2**30,
        min=0,
        help="Most bytes of tensors that %%gradcheck keeps until a backward; beyond, undecided.",
    ).tag(config=True)
    max_findings = Int(20, min=1, help="Most findings shown in one report.").tag(config=True)


def configure(shell: InteractiveShell) -> tuple[AutogradWatch, list[str]]:
    """Return the settings of *shell*, and a line for each value that was refused.

    A bad value that ``%config`` refused stays in the shell's configuration (traitlets
    merges before it validates), and would raise here at the next load.
    """
    try:
        return AutogradWatch(parent=shell), []
    except TraitError:
        pass
    settings, refused = AutogradWatch(), []
    section: dict[str, Any] = dict(shell.config.get("AutogradWatch", {}))
    for name, value in section.items():
        if settings.has_trait(name):
            try:
                setattr(settings, name, value)
            except TraitError as error:
                refused.append(f"autogradwatch: setting ignored: {error}")
    return settings, refused
