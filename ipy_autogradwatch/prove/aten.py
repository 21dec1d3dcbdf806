"""What is known of PyTorch's operations before one runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

# Results that depend on the shape of an input, not on its values.
_SHAPE_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
        "randint_like", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided",
        "is_same_size", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset",
        "_has_same_storage_numel", "_efficientzerotensor",
    )
)  # fmt: skip
PIECEWISE_CONSTANT = frozenset(
    f"aten::{name}"
    for name in (
        "round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "bucketize",
        "round_", "floor_", "ceil_", "trunc_", "sign_", "sgn_", "heaviside_",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpFacts:
    """One overload.

    Attributes:
        name: As in ``aten::mul``.
        written: Positions of the arguments that it writes into.
        written_keywords: Names of the keyword arguments that it writes into (``out=``).
        is_random: It draws from a generator; `draws` asks the arguments as well.
        dropout: Position, name and default of the probability without which it draws nothing.
        is_alias: Its result shares memory with its first argument.
        ignores_values: Its result depends on the shapes of its inputs only.
    """

    name: str
    written: tuple[int, ...]
    written_keywords: tuple[str, ...]
    is_random: bool
    dropout: tuple[int, str, float] | None
    is_alias: bool
    ignores_values: bool
    is_detach: bool
    is_exit: bool

    def draws(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether it draws random numbers when called with these arguments."""
        if not self.is_random or self.dropout is None:
            return self.is_random
        position, name, default = self.dropout
        given = args[position] if position < len(args) else kwargs.get(name, default)
        return bool(given)


def facts_of(function: Any) -> OpFacts:
    """Return what is known of *function*, an ``OpOverload``."""
    schema = function._schema
    written = [
        (index, argument.name, argument.kwarg_only)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    name = str(schema.name)
    return OpFacts(
        name=name,
        written=tuple(index for index, _, keyword in written if not keyword),
        written_keywords=tuple(name for _, name, keyword in written if keyword),
        is_random=torch.Tag.nondeterministic_seeded in function.tags,
        dropout=_dropout(schema),
        is_alias=not written and any(r.alias_info is not None for r in schema.returns),
        ignores_values=name in _SHAPE_ONLY,
        is_detach=name in ("aten::detach", "aten::detach_"),
        is_exit=name == "aten::_local_scalar_dense",
    )


def _dropout(schema: Any) -> tuple[int, str, float] | None:
    """Attention and recurrent kernels carry the tag of random ones for their dropout alone."""
    for index, argument in enumerate(schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            return index, argument.name, float(argument.default_value or 0.0)
    return None


_facts: dict[Any, OpFacts] = {}


def known_facts(function: Any) -> OpFacts:
    """Return `facts_of` *function*, computed once."""
    found = _facts.get(function)
    if found is None:
        found = _facts[function] = facts_of(function)
    return found
