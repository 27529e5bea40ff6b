"""For processes that tests start: imported first, their C++ is that which all tests share; and what
passes make and the cache keeps is found by one of those that come to it at the same time."""

from __future__ import annotations

import fcntl
from typing import Any

from simt.built import digest, folder

from fusegen.backend.cpu import toolchain
from fusegen.compile import results

from . import compilers

_alone = results.kept


def _once(key: tuple[str, ...], *how: Any) -> Any:
    """A lock of its own for each key: what a pass needs is found within it."""
    locks = folder() / "found"
    locks.mkdir(mode=0o700, exist_ok=True)
    with (locks / digest(*key)).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _alone(key, *how)


toolchain._attempt = compilers.shared
toolchain.FLAGS = compilers.LIGHT
results.kept = _once
