"""What the rules about damage through ``.data`` share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ipy_autogradwatch.model import CellRecord, Damage, DamageKind, Finding, Site
from ipy_autogradwatch.rules._site import finding_at

if TYPE_CHECKING:
    from ipy_autogradwatch.rules._rule import Rule


def damages(record: CellRecord, *kinds: DamageKind) -> Iterator[Damage]:
    """Yield the worst damage of each line, if it is one of *kinds*."""
    order = list(DamageKind)
    worst: dict[tuple[object, ...], Damage] = {}
    for damage in sorted(record.damages, key=lambda d: order.index(d.kind)):
        site = damage.site
        worst.setdefault((site.cell, site.file, site.span.line), damage)
    yield from (damage for damage in worst.values() if damage.kind in kinds)


def finding(
    rule: Rule,
    damage: Damage,
    record: CellRecord,
    *,
    headline: str,
    why: str,
    instead: str,
    evidence: tuple[tuple[str, str], ...],
) -> Finding:
    """Return the finding of *rule* at the line that wrote."""
    leaves = ", ".join(f"`{name}`" for name in damage.leaves[:6])
    if len(damage.leaves) > 6:
        leaves += f" and {len(damage.leaves) - 6} more"
    return finding_at(
        rule,
        damage.site,
        headline=headline,
        why=why,
        instead=instead,
        evidence=(
            *evidence,
            ("used by", f"the backward at {place(damage.backward, record)}"),
            ("leaves behind it", leaves or "none with a name"),
        ),
        variables=damage.leaves,
    )


def place(site: Site, record: CellRecord) -> str:
    """Return ``line 3``, with its cell if that is another than the record's."""
    line = f"line {site.span.line}"
    if site.file is not None:
        return f"{line} of {site.file}"
    return (
        line if site.cell in (None, record.cell) else f"line {site.span.line} of cell {site.cell}"
    )
