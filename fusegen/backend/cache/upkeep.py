"""What the folder holds: listed, checked, and kept below its limit; what is unused goes first."""

from __future__ import annotations

import time
from dataclasses import dataclass

from fusegen.backend.cache.folder import WRITING, Folder, Held
from fusegen.backend.cache.form import is_entry, unpacked
from fusegen.backend.cache.locks import LOCK
from fusegen.backend.notices import LOG

_STALE = 24 * 3600.0  # seconds: no process is still at work on such a file
_LOOKS = 16  # writes of the limit's 16th part between two looks at the whole folder
_ROOM = 0.75  # of the limit that is left filled


@dataclass(frozen=True, slots=True)
class Entry:
    """`label` is "" where the file is damaged or of an earlier version."""

    held: Held
    label: str


class _Written:
    """Bytes since this process last looked at the whole folder."""

    since_look = float("inf")


def after_write(folder: Folder, n_bytes: int, most: float) -> None:
    """Keep the folder below its limit, looking only now and then. Raises OSError."""
    _Written.since_look += n_bytes
    if _Written.since_look > most / _LOOKS:
        _Written.since_look = 0.0
        prune(folder, most)


def prune(folder: Folder, most: float) -> list[Held]:
    """Remove leftovers, and where entries exceed `most` bytes those unused for longest, until they
    fill three quarters. What was removed. Raises OSError."""
    entries, old = [], []
    for one in folder.files():
        if is_entry(one.name):
            entries.append(one)
        elif one.name.startswith((WRITING, LOCK)) and time.time() - one.used > _STALE:
            old.append(one)
    total = sum(e.n_bytes for e in entries)
    if total > most:
        for one in sorted(entries, key=lambda e: e.used):
            if total <= _ROOM * most:
                break
            old.append(one)
            total -= one.n_bytes
    gone = [one for one in old if folder.remove(one.name)]
    if gone:
        LOG.info("cache: removed %d files, %.1f MB", len(gone), sum(o.n_bytes for o in gone) / 1e6)
    return gone


def entries(folder: Folder) -> list[Entry]:
    """Every entry, read and checked, those used last first. Raises OSError."""
    found = []
    for one in sorted(folder.files(), key=lambda e: -e.used):
        if is_entry(one.name):
            raw = folder.read(one.name, touch=False)
            whole = None if raw is None else unpacked(one.name, raw)
            found.append(Entry(one, "" if whole is None else whole[0]))
    return found
