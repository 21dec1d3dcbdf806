"""Stage 3, diagnose: one rule a file.

To add a rule, add one module here that defines ``RULE``; nothing else lists it. Its
examples are run by ``tests/test_rules.py`` and its page in ``docs/rules`` is written from
it. ``docs/adding-a-rule.md`` walks through one.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from ipy_autogradwatch.rules._page import rule_page
from ipy_autogradwatch.rules._rule import Rule

__all__ = ["Rule", "all_rules", "rule_page"]


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, by code."""
    names = [info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((module.RULE for module in modules), key=lambda rule: rule.code))
