"""Tensor maps: what the copy engine of sm_90 is told of an array, made by the driver.

A map holds an address, so it is made for the arrays of each launch; the last ones are kept, since
callers come back with the same arrays. A map of the same address and the same `Tiled` is the same
map: none is ever stale.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from fusegen.ir.errors import BackendError

MAP_BYTES = 128
BOUNDARY = 16  # bytes; where arrays and their rows begin
CHUNK_BYTES = 128  # of a box's row: the width of the swizzle
_ALIGNED = 64  # bytes; where the driver writes a map
_MOST_KEPT = 256
_TYPES = {"float16": 6, "bfloat16": 9}  # CUtensorMapDataType
_SWIZZLE_128, _PROMOTE_128, _NO_INTERLEAVE, _ZEROS_OUTSIDE = 3, 2, 0, 0


@dataclass(frozen=True, slots=True)
class Tiled:
    """Vectors (batches, rows, length) and the box that a copy takes: `box_rows` rows of one batch
    and 128 bytes of each. Strides are elements; numbers of a vector are neighbours."""

    dtype: str
    itemsize: int
    shape: tuple[int, int, int]
    strides: tuple[int, int]  # from a batch to the next, from a row to the next
    box_rows: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """A kernel's parameter: the map of the launch's pointer number `pointer`."""

    pointer: int
    tiled: Tiled


class MapRoom:
    """The maps of one parameter, by address."""

    def __init__(self, library: Any, tiled: Tiled) -> None:
        self._encode = library.cuTensorMapEncodeTiled
        self._kept: dict[int, Any] = {}
        self._tiled = tiled

    def of(self, address: int) -> Any:
        """The map of the array there, as aligned bytes: see `place`. Raises BackendError."""
        found = self._kept.get(address)
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept = {}
            found = self._kept[address] = _encoded(self._encode, self._tiled, address)
        return found


def words_of(mapped: Mapped) -> tuple[int, ...]:
    """A map in numbers, as templates/xla/cuda.cpp reads it: pointer, type, sizes, bytes from a row
    and from a batch to the next, the box, modes. Sizes of 0: nothing is copied."""
    tiled = mapped.tiled
    return (mapped.pointer, _TYPES[tiled.dtype], *tiled.shape[::-1], *_apart(tiled),
            CHUNK_BYTES // tiled.itemsize, tiled.box_rows, _NO_INTERLEAVE, _SWIZZLE_128,
            _PROMOTE_128, _ZEROS_OUTSIDE)


def _apart(tiled: Tiled) -> list[int]:
    """Bytes from a row to the next, and from a batch; of one alone any that the driver takes."""
    return [s * tiled.itemsize if n > 1 else BOUNDARY
            for n, s in zip(tiled.shape[1::-1], tiled.strides[::-1], strict=True)]


def place(room: Any) -> int:
    """Where a map's bytes lie in its room."""
    return -(-ctypes.addressof(room) // _ALIGNED) * _ALIGNED


def _encoded(encode: Any, tiled: Tiled, address: int) -> Any:
    room = (ctypes.c_ubyte * (MAP_BYTES + _ALIGNED))()
    batches, rows, length = tiled.shape
    if not (batches and rows and length):
        return room  # nothing is copied
    size = tiled.itemsize
    code = encode(
        ctypes.c_void_p(place(room)), ctypes.c_int(_TYPES[tiled.dtype]), ctypes.c_uint(3),
        ctypes.c_void_p(address), (ctypes.c_uint64 * 3)(length, rows, batches),
        (ctypes.c_uint64 * 2)(*_apart(tiled)),
        (ctypes.c_uint32 * 3)(CHUNK_BYTES // size, tiled.box_rows, 1),
        (ctypes.c_uint32 * 3)(1, 1, 1), ctypes.c_int(_NO_INTERLEAVE), ctypes.c_int(_SWIZZLE_128),
        ctypes.c_int(_PROMOTE_128), ctypes.c_int(_ZEROS_OUTSIDE),
    )
    if code:
        raise BackendError(
            f"the driver makes no tensor map of {tiled} at {address:#x}: error {code}")
    return room
