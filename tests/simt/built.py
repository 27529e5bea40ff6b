"""What compilers make for tests: built once, by whoever asks first, and kept by its content."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@functools.cache
def folder() -> Path:
    """This user's own folder for what was built."""
    found = Path(tempfile.gettempdir()) / f"fusegen-tests-{os.getuid()}"
    found.mkdir(mode=0o700, exist_ok=True)
    status = found.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{found} must belong to this user alone")
    return found


def digest(*parts: str) -> str:
    """A name for a product of these texts."""
    made = hashlib.sha256()
    for part in parts:
        made.update(f"{len(part)}:{part}".encode())
    return made.hexdigest()[:32]


@contextmanager
def building(product: Path) -> Iterator[Path | None]:
    """A folder to build `product` in, under its name; None if another process has just built it.

    Whoever wants the same product waits, so that the workers of a test run build nothing twice.
    A product whose building raises is not kept.
    """
    with alone(product.name):
        if product.exists():
            yield None
            return
        with tempfile.TemporaryDirectory(dir=folder()) as name:
            yield Path(name)
            (Path(name) / product.name).replace(product)


@contextmanager
def alone(name: str, seconds: float = 120.0) -> Iterator[None]:
    """A lock between processes, or nothing after so long: it only saves work, and who cannot have
    it works alone. It is taken off, not only closed: a forked child has the file open as well."""
    locks = folder() / "locks"
    locks.mkdir(mode=0o700, exist_ok=True)
    end = time.monotonic() + seconds
    with (locks / name).open("w") as lock:
        while not _taken(lock):
            if time.monotonic() > end:
                break
            time.sleep(0.005)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
