"""A rule as a page: for ``docs/rules`` and for ``%autogradwatch explain``."""

from __future__ import annotations

from ipy_autogradwatch.rules._rule import Rule

_PAGE = """\
# {rule.code} {rule.name}

{rule.summary}

*Severity: {rule.severity}*

## Why it matters

{rule.why}

## Found here

```python
{rule.bad}```
{then}
Write instead:

```python
{rule.good}```

## Not found here

```python
{rule.near_miss}```

## Sources

{sources}

To silence it on one line, end the line with `# autogradwatch: ignore[{rule.code}]`; for the
session, run `%autogradwatch ignore {rule.code}`.
"""


def rule_page(rule: Rule) -> str:
    """Return the Markdown page of *rule*."""
    sources = "\n".join(f"- {source}" for source in rule.sources)
    then = f"\nand then\n\n```python\n{rule.then}```\n" if rule.then else ""
    return _PAGE.format(rule=rule, sources=sources, then=then)
