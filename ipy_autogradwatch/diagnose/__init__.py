"""Stage 3, diagnose: from what was observed to what is said. No torch, no IPython."""

from ipy_autogradwatch.diagnose.changes import changes
from ipy_autogradwatch.diagnose.findings import findings

__all__ = ["changes", "findings"]
