"""Entries under keys: loaded, stored, or built by the first who wants them.

A file's name is the hash of everything its content depends on, so entries never change. The cache
is never a reason to fail: where it cannot be used everything is made anew, with one warning.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from fusegen.backend.cache.folder import Folder, opened
from fusegen.backend.cache.form import Key, name_of, packed, unpacked
from fusegen.backend.cache.locks import held
from fusegen.backend.cache.upkeep import after_write
from fusegen.backend.host.threads import aside
from fusegen.backend.notices import LOG, warn_once
from fusegen.backend.settings import cache_bytes
from fusegen.ir.errors import BackendError

Cancelled = Callable[[], bool]


def load(key: Key) -> bytes | None:
    """What `store` put there; None if nothing, or if the file is damaged or somebody else's."""
    with ExitStack() as stack:
        folder = _folder(stack)
        return None if folder is None else _read(folder, name_of(key))


def store(key: Key, label: str, data: bytes) -> None:
    """Keep `data` for later processes; `label` says in a line what it is."""

    def work(_: Cancelled) -> None:
        with ExitStack() as stack:
            folder = _folder(stack)
            if folder is not None:
                _write(folder, name_of(key), label, data)

    aside(work)


def artifact(
    key: Key, label: str, build: Callable[[Cancelled], bytes],
    good: Callable[[bytes], bool] = lambda _: True,
) -> bytes:
    """What `build` makes, from the folder if it was made before and is still `good`.

    Threads and processes that want the same at once wait for the first one, as long as compilers
    may take. What `build` raises passes through, and leaves nothing behind; it runs in a thread of
    its own, and should return soon when its argument says so.
    """
    found = load(key)
    if found is not None and good(found):
        return found
    return aside(lambda cancelled: _built(name_of(key), label, build, good, cancelled))


def _built(
    name: str, label: str, build: Callable[[Cancelled], bytes], good: Callable[[bytes], bool],
    cancelled: Cancelled,
) -> bytes:
    with ExitStack() as stack:
        folder = _folder(stack)
        if folder is None:
            return build(cancelled)
        stack.enter_context(held(folder, name, cancelled))
        found = _read(folder, name)
        if found is None or not good(found):
            found = build(cancelled)
            _write(folder, name, label, found)
        return found


def _folder(stack: ExitStack) -> Folder | None:
    """The folder, open as long as the stack; None where it cannot be used."""
    try:
        return stack.enter_context(opened())
    except BackendError as error:
        warn_once(f"{error} Until then nothing is kept between processes.")
        return None


def _read(folder: Folder, name: str) -> bytes | None:
    raw = folder.read(name)
    if raw is None:
        return None
    found = unpacked(name, raw)
    if found is None:
        LOG.warning("cache: %s is damaged; it is made again", name)
        return None
    return found[1]


def _write(folder: Folder, name: str, label: str, data: bytes) -> None:
    most = cache_bytes()
    if most == 0:
        return
    try:
        folder.write(name, packed(name, label, data))
        after_write(folder, len(data), most)
    except OSError as error:
        warn_once(f"nothing can be written to the cache folder {folder.path}: "
                  f"{error.strerror or error}. What is compiled serves this process alone. Set "
                  "FUSEGEN_CACHE_DIR to a folder with room.")
