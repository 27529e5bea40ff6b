"""Arrays on a GPU as addresses with shapes and strides: all that calls need to lay them out."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.memory import Shape
from fusegen.ir.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Flags:
    c_contiguous: bool
    writeable: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array begins, and whose memory it is."""

    ptr: int
    device_id: int
    owner: Any  # the user's array, which keeps the memory
    stream: int | None = None  # on which its values are ready; None: on that of its library
    readonly: bool = False


class View:
    """A part of someone's array. Copies are its library's: torch's alone are known here."""

    def __init__(self, shape: Shape, dtype: Any, memptr: Place, strides: Shape | None = None):
        """strides: in bytes; None: the last axis fastest."""
        self.shape, self.dtype, self.data = tuple(shape), np.dtype(dtype), memptr
        self.strides = _packed(self.shape, self.itemsize) if strides is None else tuple(strides)

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def flags(self) -> Flags:
        long = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        packed = _packed(tuple(n for n, _ in long), self.itemsize)
        return Flags(self.size == 0 or packed == tuple(s for _, s in long), not self.data.readonly)

    def transpose(self, *order: Any) -> View:
        places = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
        return self._seen(tuple(self.shape[i] for i in places),
                          tuple(self.strides[i] for i in places))

    def reshape(self, *shape: Any) -> View:
        """A view where strides allow one, else a copy."""
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in wanted:
            rest = math.prod(n for n in wanted if n != -1)
            wanted = tuple(self.size // rest if n == -1 else n for n in wanted)
        strides = reshaped(self.shape, self.strides, wanted, self.itemsize)
        return self.copy().reshape(wanted) if strides is None else self._seen(wanted, strides)

    def __getitem__(self, key: Any) -> View:
        """Slices that step forward, of every axis."""
        bounds = [s.indices(n) for s, n in zip(key, self.shape, strict=True)]
        shift = sum(b[0] * s for b, s in zip(bounds, self.strides, strict=True))
        steps = tuple(b[2] * s for b, s in zip(bounds, self.strides, strict=True))
        return self._seen(tuple(len(range(*b)) for b in bounds), steps, shift)

    def __setitem__(self, key: Any, value: View) -> None:
        self._tensor().copy_(value._tensor())

    def copy(self, order: str = "C") -> View:
        """In memory of its own."""
        source = self._tensor()
        packed = sys.modules["torch"].contiguous_format
        made = source.clone(memory_format=packed)
        return View(self.shape, self.dtype, Place(made.data_ptr(), self.data.device_id, made))

    def __array_function__(self, function: Any, kinds: Any, args: Any, named: Any) -> Any:
        if function is np.broadcast_to:
            return self._broadcast(*args, **named)
        if function is np.moveaxis:
            _, source, destination = args
            order = [i for i in range(self.ndim) if i not in set(source)]
            for to, axis in sorted(zip(destination, source, strict=True)):
                order.insert(to, axis)
            return self.transpose(order)
        return NotImplemented

    def _broadcast(self, _: View, shape: Shape) -> View:
        whole = (shape,) if isinstance(shape, int) else tuple(shape)
        more = len(whole) - self.ndim
        old = zip(self.shape, self.strides, whole[more:], strict=True)
        return self._seen(whole, (0,) * more + tuple(s if m == n else 0 for m, s, n in old))

    def _seen(self, shape: Shape, strides: Shape, shift: int = 0) -> View:
        d = self.data
        return View(shape, self.dtype, Place(d.ptr + shift, d.device_id, d.owner, d.stream,
                                             d.readonly), strides)

    def _tensor(self) -> Any:
        """The same elements as torch has them. Raises ArgumentError for another library's."""
        owner = self.data.owner
        if type(owner).__module__.partition(".")[0] != "torch":
            raise ArgumentError("an array lies in memory as kernels cannot read or write it",
                                why="Columns have to be neighbours, and rows equally far apart; "
                                "and nothing here can copy such an array.",
                                fix="Give contiguous arrays, or install CuPy.")
        apart = (self.data.ptr - owner.data_ptr()) // self.itemsize
        return owner.detach().as_strided(self.shape, [s // self.itemsize for s in self.strides],
                                         owner.storage_offset() + apart)


def _packed(shape: Shape, itemsize: int) -> Shape:
    return tuple(itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def reshaped(shape: Shape, strides: Shape, wanted: Shape, itemsize: int) -> Shape | None:
    """Strides of the same memory in another shape; None where there are none.

    Axes of both shapes are taken in groups of as many elements; those of one group must be as far
    apart as one axis would be."""
    if 0 in shape:
        return _packed(wanted, itemsize)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    for size in reversed(wanted):
        if size == 1:
            found.append(itemsize)
            continue
        n, step = old.pop()
        found.append(step)
        while n % size:  # joins the axis before
            more, slow = old.pop()
            if slow != step * n:
                return None
            n *= more
        if n > size:
            old.append((n // size, step * size))
    return tuple(reversed(found))
