"""The stacks of emulated threads, which the process keeps from launch to launch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_KEPT = 2048  # threads: of more, stacks are given back after the launch


class Stacks(ctypes.Structure):
    """Mirrors Stacks in stacks.h."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("registers", ctypes.c_void_p),
        ("threads", ctypes.c_size_t),
        ("latest", ctypes.c_uint32),
    )


_stacks = Stacks()


@contextmanager
def ready(library: ctypes.CDLL, threads: int) -> Iterator[Stacks]:
    """Stacks for at least so many threads, made by any module's library; one launch at a time."""
    if _stacks.threads < threads:
        library.simt_unmap_stacks(ctypes.byref(_stacks))
        if library.simt_map_stacks(ctypes.byref(_stacks), ctypes.c_size_t(threads)):
            raise MemoryError(f"no memory for the stacks of {threads} threads")
    try:
        yield _stacks
    finally:
        if _stacks.threads > _MOST_KEPT:
            library.simt_unmap_stacks(ctypes.byref(_stacks))
