"""Shared libraries in the process: loaded from bytes, shared, and closed when nobody uses them.

From bytes, not from a path: what was checked is what is loaded, whatever happens to files
meanwhile, and a folder that allows no execution does no harm.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import time
from _ctypes import dlclose
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary, finalize

from fusegen.backend.cpu.process import scratch
from fusegen.backend.notices import LOG

_NUMBERS = itertools.count()
_BITS = 40
_T = TypeVar("_T")


class Library:
    """A loaded library, closed with the last reference to it."""

    def __init__(self, data: bytes) -> None:
        """Raises OSError where the system's loader refuses it."""
        self._functions = loaded_by(ctypes.CDLL, data)
        finalize(self, dlclose, self._functions._handle).atexit = False

    def function(self, name: str, *types: Any, result: Any = None) -> Any:
        """A function, good as long as the library is held; None without one of that name."""
        try:
            found = self._functions[name]  # not as an attribute: the library would hold it
        except AttributeError:
            return None
        found.argtypes, found.restype = types, result
        return found


_LIBRARIES: WeakValueDictionary[bytes, Library] = WeakValueDictionary()  # by the bytes' hash


def library(data: bytes, name: str) -> Library:
    """The library of these bytes, loaded once however many use it. Raises OSError."""
    key = hashlib.sha256(data).digest()
    found = _LIBRARIES.get(key)
    if found is None:
        start = time.perf_counter()
        found = _LIBRARIES[key] = Library(data)
        LOG.info("loaded %s in %.1f ms", name, 1e3 * (time.perf_counter() - start))
    return found


def loaded_by(load: Callable[[str], _T], data: bytes) -> _T:
    """What `load` makes of a path of these bytes. Raises what it raises."""
    try:
        handle = os.memfd_create("fusegen", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # another system, or one that forbids it
        return _loaded_from_file(load, data)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        try:
            return load(_name_of(handle))
        except (ImportError, OSError):  # without /proc
            return _loaded_from_file(load, data)


def _name_of(handle: int) -> str:
    """A path of the open file that no other ever had: the loader knows libraries by their paths,
    and numbers of open files come again. Empty parts and dots spell the bits of a number."""
    number = next(_NUMBERS)
    unique = "".join("./" if number >> bit & 1 else "/" for bit in range(_BITS))
    return f"/proc/self/fd/{unique}{handle}"


def _loaded_from_file(load: Callable[[str], _T], data: bytes) -> _T:
    with scratch() as folder:
        path = folder / "kernel.so"
        path.write_bytes(data)
        return load(str(path))
