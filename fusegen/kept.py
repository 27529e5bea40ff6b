"""Results that cost time, kept on disk under all they depend on."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from fusegen.errors import BackendError
from fusegen.runtime.cache import load_bytes, store_bytes
from fusegen.sources import sources_digest

_T = TypeVar("_T")


def kept(key: tuple[str, ...], make: Callable[[], _T], settled: Callable[[_T], bool]) -> _T:
    """What `make` makes, from disk if it was made before, by these sources, under this key.

    Only what is `settled` is kept: not what a busy machine had no time to decide.
    """
    found: _T | None = known(key)
    if found is None:
        found = make()
        if settled(found):
            whole = (key[0], sources_digest(), *key[1:])
            with suppress(BackendError):  # without a private folder nothing is kept
                store_bytes(whole, ".pickle", pickle.dumps(found))
    return found


def known(key: tuple[str, ...]) -> Any:
    """What `kept` has under this key; None if nothing."""
    return _load((key[0], sources_digest(), *key[1:]))


def _load(key: tuple[str, ...]) -> Any:
    try:
        data = load_bytes(key, ".pickle")
        return None if data is None else pickle.loads(data)
    except BackendError:
        return None  # no private folder: everything is made in this process
    except (pickle.UnpicklingError, AttributeError, ImportError, EOFError, TypeError):
        return None  # written by something else: make it again
