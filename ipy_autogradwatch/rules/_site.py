"""A finding at a site that was probed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipy_autogradwatch.model import Finding, Site

if TYPE_CHECKING:
    from ipy_autogradwatch.rules._rule import Rule


def finding_at(
    rule: Rule,
    site: Site,
    *,
    headline: str,
    why: str,
    instead: str,
    evidence: tuple[tuple[str, str], ...] = (),
    variables: tuple[str, ...] = (),
    hits: int = 1,
) -> Finding:
    """Return the finding of *rule* at *site*."""
    span = site.span
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        cell=site.cell,
        file=site.file,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        headline=headline,
        evidence=evidence,
        why=why,
        instead=instead,
        variables=variables,
        source=site.text,
        hits=hits,
    )


def listed(names: tuple[str, ...]) -> str:
    """Return the names as code, the first few of them."""
    shown = ", ".join(f"`{name}`" for name in names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")
