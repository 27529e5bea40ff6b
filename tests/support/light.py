"""For processes that tests start: imported first, their C++ is that which all tests share; and what
passes make and the cache keeps is found by one of those that come to it at the same time."""

from __future__ import annotations

from typing import Any

from simt.built import alone, digest

from fusegen.backend.cpu import toolchain
from fusegen.compile import results

from . import compilers

_alone = results.kept


def _once(key: tuple[str, ...], *how: Any) -> Any:
    """A lock of its own for each key: what a pass needs is found within it."""
    with alone(f"found-{digest(*key)}"):
        return _alone(key, *how)


toolchain._attempt = compilers.shared
toolchain.FLAGS = compilers.LIGHT
results.kept = _once
