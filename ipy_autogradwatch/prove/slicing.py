"""Which part of a tape a root needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from ipy_autogradwatch.prove.tape import NO_CUT, Home, Load, Op, View


def slice_for(
    entries: Sequence[Load | Op], roots: Iterable[View], also: Iterable[Op] = ()
) -> list[Load | Op]:
    """Return the entries that decide the content of *roots*, in order.

    Args:
        entries: A tape's.
        roots: Where the roots lie at the end of the tape.
        also: Operations that are wanted although no root needs them.
    """
    views = set(roots)
    needed: set[Home] = {view[0] for view in views}
    wanted = set(map(id, also))
    kept: list[Load | Op] = []
    for entry in reversed(entries):
        if isinstance(entry, Load):
            if entry.home in needed:
                kept.append(entry)
                if _is_whole(entry):
                    needed.discard(entry.home)
        elif (
            id(entry) in wanted
            or any(home in needed for home in entry.homes())
            or (entry.is_alias and not views.isdisjoint(entry.outputs))
        ):
            kept.append(entry)
            if not entry.written:
                needed.difference_update(entry.homes())
                views.difference_update(entry.outputs)
            for ref in entry.inputs:
                needed.add(ref.view[0])
                views.add(ref.view)
    kept.reverse()
    return kept


def _is_whole(load: Load) -> bool:
    value = load.value
    if value.layout is not torch.strided:
        return True
    return value.numel() * value.element_size() >= value.untyped_storage().nbytes()


def connected_part(entries: Sequence[Load | Op], roots: Iterable[View]) -> list[Load | Op]:
    """Return the entries of a slice that autograd's own graph of *roots* goes through."""
    lit: set[Home] = set()
    on: list[Load | Op] = []
    for entry in entries:
        if isinstance(entry, Load):
            if entry.leaf is not None:
                lit.add(entry.home)
                on.append(entry)
            elif _is_whole(entry):
                lit.discard(entry.home)
        elif not entry.is_stopped and any(
            ref.cut == NO_CUT and ref.view[0] in lit for ref in entry.inputs
        ):
            lit.update(entry.homes())
            on.append(entry)
    views = set(roots)
    needed: set[Home] = {view[0] for view in views}
    part: list[Load | Op] = []
    for entry in reversed(on):
        if isinstance(entry, Load):
            if entry.home in needed:
                part.append(entry)
        elif any(home in needed for home in entry.homes()) or (
            entry.is_alias and not views.isdisjoint(entry.outputs)
        ):
            part.append(entry)
            for ref in entry.inputs:
                if ref.cut == NO_CUT:
                    needed.add(ref.view[0])
                    views.add(ref.view)
    part.reverse()
    return part
