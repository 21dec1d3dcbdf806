"""What the memory of the recorded tensors holds at one moment of a replay."""

from __future__ import annotations

import torch

from ipy_autogradwatch.prove.tape import Home, Load, Tape, View

_HIGHER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class CannotReplay(RuntimeError):
    """Raised when an operation does not run again; the text names it."""


def higher(dtype: torch.dtype) -> torch.dtype:
    """Return the double precision of *dtype*, or *dtype* itself."""
    return _HIGHER.get(dtype, dtype)


class Contents:
    """The content of each home, as a tensor with its graph.

    A home is kept as the views that were made of it, and flat where a view is asked for that
    nobody made. Nothing is written in place: a write puts a new content.
    """

    def __init__(
        self, tape: Tape, *, double: bool, raised: dict[int, torch.Tensor] | None = None
    ) -> None:
        self.double = double
        self._tape = tape
        self._shared = raised
        self._flat: dict[Home, torch.Tensor] = {}
        self._views: dict[Home, dict[View, torch.Tensor]] = {}

    def has(self, home: Home) -> bool:
        """Whether anything was put there."""
        return home in self._flat or home in self._views

    def put(self, view: View, value: torch.Tensor) -> None:
        """A new home has *value*, or one that was given up has it from here on."""
        self._flat.pop(view[0], None)
        self._views[view[0]] = {view: value}

    def put_flat(self, home: Home, value: torch.Tensor) -> None:
        """All of *home* is *value* from here on."""
        self._flat[home] = value
        self._views[home] = {}

    def put_alias(self, view: View, value: torch.Tensor) -> None:
        """*value* is a view of what is there."""
        self._views.setdefault(view[0], {}).setdefault(view, value)

    def view(self, view: View) -> torch.Tensor:
        """Return the content at *view* now."""
        home = view[0]
        views = self._views.get(home)
        if views is None and home not in self._flat:
            raise CannotReplay("a value that was not recorded")
        found = None if views is None else views.get(view)
        if found is None:
            found = self.as_view(self.content(home), view)
            self._views.setdefault(home, {})[view] = found
        return found

    def as_view(self, flat: torch.Tensor, view: View) -> torch.Tensor:
        """Return *view* of a whole home."""
        _, offset, shape, stride, dtype, flipped = view
        if flat.is_complex() and not dtype.is_complex:
            flat = torch.view_as_real(flat).reshape(-1)
        elif dtype.is_complex and not flat.is_complex():
            flat = torch.view_as_complex(flat.reshape(-1, 2))
        elif self.raised(dtype) != flat.dtype:
            raise CannotReplay(f"a view of {flat.dtype} memory as {dtype}")
        result = flat.as_strided(shape, stride, offset)
        if flipped:
            result = result.conj() if dtype.is_complex else -result
        return result

    def content(self, home: Home) -> torch.Tensor:
        """Return all of a home, flat."""
        flat = self._flat.get(home)
        if flat is None:
            if not self._views.get(home):
                raise CannotReplay("a value that was not recorded")
            view, value = next(iter(self._views[home].items()))
            flat = self._flat[home] = self._flattened(view, value)
        return flat

    def _flattened(self, view: View, value: torch.Tensor) -> torch.Tensor:
        home, offset, shape, stride, dtype, flipped = view
        if flipped:
            value = value.conj() if dtype.is_complex else -value
        count = self._tape.sizes.get(home, 0) // dtype.itemsize
        if value.is_contiguous() and stride == value.stride() and value.numel() == count:
            return value.reshape(-1)
        blank = value.new_zeros(max(count, value.numel()))
        return torch.as_strided_scatter(blank, value, shape, stride, offset)

    def raised(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype that *dtype* is replayed in."""
        return higher(dtype) if self.double else dtype

    def raise_(self, value: torch.Tensor) -> torch.Tensor:
        """Return *value* in the dtype that it is replayed in."""
        return value.to(self.raised(value.dtype))

    def load(self, load: Load, value: torch.Tensor | None) -> None:
        """*load* is read, or *value* in its place."""
        if value is None:
            value = self._constant(load)
        home = load.home
        known = home in self._flat or home in self._views
        size = self._tape.sizes.get(home, 0) // load.view[4].itemsize
        if known and load.value.numel() < size:
            flat = self.content(home)
            _, offset, shape, stride, _, _ = load.view
            self._flat[home] = torch.as_strided_scatter(flat, value, shape, stride, offset)
            self._views[home] = {load.view: value}
            return
        self._flat.pop(home, None)
        if load.value.numel() < size and load.value.layout is torch.strided and load.leaf is None:
            # A view of something larger, whose rest may be read through other views.
            memory = torch.empty(0, dtype=load.value.dtype, device=load.value.device)
            memory = memory.set_(load.value.untyped_storage(), 0, (size,), (1,))
            self._flat[home] = self.raise_(memory)
            self._views[home] = {}
            return
        self._views[home] = {load.view: value}

    def _constant(self, load: Load) -> torch.Tensor:
        shared = self._shared
        if shared is None:
            value = self.raise_(load.value)
            return value.clone() if value is load.value else value
        known = shared.get(id(load))
        if known is None:
            known = shared[id(load)] = self.raise_(load.value)
        return known
