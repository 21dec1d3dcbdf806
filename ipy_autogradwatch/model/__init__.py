"""The nouns: what one stage hands to the next.

    instrument -> Site            where in the cell something is watched
    observe    -> TensorFacts     what was true of a tensor at one moment
               -> DataAccess      what one ``.data`` site did in this cell
               -> BackwardCall    what one ``backward`` site started from, and reached
               -> TensorState     a tensor of the namespace, before or after the cell
               -> CellRecord      everything observed while one cell ran
    diagnose   -> Finding         one problem, explained
               -> Change          what the cell did to one tensor
               -> CellReport      all that is said about one cell

Every class is frozen and holds plain values only. No field is ever a live tensor, a
grad_fn node or a frame: keeping one would keep the user's graph (and its saved
tensors) in memory, and a record must say what *was* true, not what is true when
somebody reads it.

Field names are PyTorch's own words; ``docs/glossary.md`` has the list.
"""

from ipy_autogradwatch.model.proof import GradientVerdict
from ipy_autogradwatch.model.record import (
    BackwardCall,
    CellRecord,
    CellSource,
    Damage,
    DamageKind,
    DataAccess,
)
from ipy_autogradwatch.model.report import (
    REPORT_VERSION,
    CellReport,
    Change,
    ChangeKind,
    Finding,
    Severity,
    WatcherFailure,
)
from ipy_autogradwatch.model.source import PROBE_NAME, Part, Site, SiteKind, Span
from ipy_autogradwatch.model.tensor import GradChange, GradState, TensorFacts, TensorState

__all__ = [
    "PROBE_NAME",
    "REPORT_VERSION",
    "BackwardCall",
    "CellRecord",
    "CellReport",
    "CellSource",
    "Change",
    "ChangeKind",
    "Damage",
    "DamageKind",
    "DataAccess",
    "Finding",
    "GradChange",
    "GradState",
    "GradientVerdict",
    "Part",
    "Severity",
    "Site",
    "SiteKind",
    "Span",
    "TensorFacts",
    "TensorState",
    "WatcherFailure",
]
