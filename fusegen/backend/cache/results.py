"""Results that cost time, kept on disk under all they depend on."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from fusegen.backend.cache.entries import load, store
from fusegen.backend.notices import LOG
from fusegen.backend.own_files import sources_digest, sources_stamp
from fusegen.ir.codec import Unreadable, Unwritable, decoded, encoded

_SETTLED = 2.0  # seconds after a file was last written
_T = TypeVar("_T")


def kept(
    key: tuple[str, ...], make: Callable[[], _T], settled: Callable[[_T], bool], kind: type[_T],
    about: str = "",
) -> _T:
    """What `make` makes, from disk if it was made before, by these sources, under this key.

    kind: its class, a frozen dataclass or `str`; see `codec`. about: whose it is, for listings.
    Only what is `settled` is kept: not what a busy machine had no time to decide.
    """
    found = known(key, kind)
    if found is None:
        found = make()
        if settled(found):
            try:
                store(_whole(key), f"{key[0]} {about}".rstrip(), encoded(found))
            except Unwritable as error:
                LOG.warning("%s is not kept: %s", key[0], error)
    return found


def known(key: tuple[str, ...], kind: type[_T]) -> _T | None:
    """What `kept` has under this key; None if nothing."""
    text = load(_whole(key))
    if text is None:
        return None
    try:
        found = decoded(text, kind)
    except Unreadable as error:
        LOG.warning("cache: refused a kept %s: %s", key[0], error)
        return None
    LOG.debug("%s: kept from an earlier run", key[0])
    return found


def _whole(key: tuple[str, ...]) -> tuple[str, ...]:
    return (key[0], _sources(), *key[1:])


@cache
def _sources() -> str:
    """The digest of fusegen's own files, kept under their stamp: to read all of them takes half of
    a first call whose kernel is there."""
    stamp, last = sources_stamp()
    known = load(("sources", stamp))
    if known is not None:
        return known.decode("ascii")
    digest = sources_digest()
    # What is written twice in one tick of the clock has one stamp.
    if time.time() - last > _SETTLED and sources_stamp() == (stamp, last):
        store(("sources", stamp), "sources of fusegen", digest.encode("ascii"))
    return digest
