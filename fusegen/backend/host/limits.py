"""How many processors a call may use: those of the process, of its control group, and what was said
to other libraries' threads, which would be in each other's way.

Said by OMP_NUM_THREADS, to OpenMP's runtimes and OpenBLAS (threadpoolctl does), to torch. What can
change between two calls is asked at each; which libraries there are when a module was imported.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_MAPS, _OWN_GROUPS = Path("/proc/self/maps"), Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")

_RUNTIMES = re.compile(r"/\S*/lib(?:gomp|omp|iomp5|\w*openblas)[^/\s]*\.so[^/\s]*$", re.MULTILINE)
_ASKED = ("omp_get_max_threads", "openblas_get_num_threads", "openblas_get_num_threads64_",
          "scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_")
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int)


def processors() -> int:
    """Those that the process may run on, or as many as its control group has time of."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(there or 1, quota()))


def threads() -> int:
    """The least of all that was said; at least 1."""
    addresses, callables = sources()
    said: list[int] = [processors(), *(_FUNCTION(a)() for a in addresses),
                       *(ask() for ask in callables)]
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal():
        said.append(int(first))
    return max(1, min(said))


# ---- control groups ----


@cache
def quota() -> int:
    """Processors that the process's control groups have time of; very many without a limit."""
    with suppress(OSError, ValueError):
        lines = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
        shares = [s for _, kinds, path in lines for s in _shares(kinds.split(","), path.strip("/"))]
        return max(1, math.ceil(min(shares, default=sys.maxsize)))
    return sys.maxsize


def _shares(kinds: list[str], path: str) -> Iterator[float]:
    """What a group and those above it may use, of one of the two versions of control groups."""
    if kinds == [""]:
        root, read = _GROUPS, _share
    elif "cpu" in kinds:
        root, read = _GROUPS / ",".join(kinds), _share_of_old
    else:
        return
    place = root / path
    for folder in (place, *place.parents):
        if not folder.is_relative_to(root):
            break
        with suppress(OSError, ValueError):
            yield from read(folder)


def _share(folder: Path) -> Iterator[float]:
    most, period = (folder / "cpu.max").read_text().split()
    if most != "max":
        yield int(most) / int(period)


def _share_of_old(folder: Path) -> Iterator[float]:
    most = int((folder / "cpu.cfs_quota_us").read_text())
    if most > 0:
        yield most / int((folder / "cpu.cfs_period_us").read_text())


# ---- other libraries ----


_Sources = tuple[tuple[int, ...], tuple[Callable[[], int], ...]]
_known: tuple[int, _Sources] = (0, ((), ()))
_told: list[Callable[[], int]] = []


def listen(say: Callable[[], int]) -> None:
    """Ask this one too, in the thread of every call."""
    global _known
    _told.append(say)
    _known = (0, ((), ()))


def sources() -> _Sources:
    """What tells the number of threads of other libraries in the process: addresses of functions in
    C, and callables. Looked for when another module was imported."""
    global _known
    n_modules = len(sys.modules)
    if _known[0] != n_modules:
        torch = getattr(sys.modules.get("torch"), "get_num_threads", None)
        found = tuple(address for path in _loaded() for address in _addresses(path))
        _known = n_modules, (found, (*([] if torch is None else [torch]), *_told))
    return _known[1]


@cache
def _addresses(path: str) -> tuple[int, ...]:
    """Of a library's functions that tell; it stays loaded."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:  # unloaded meanwhile
        return ()
    there = (getattr(library, name, None) for name in _ASKED)
    return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in there if f is not None)


def _loaded() -> list[str]:
    with suppress(OSError):
        return sorted(set(_RUNTIMES.findall(_MAPS.read_text())))
    return []
