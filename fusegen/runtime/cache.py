"""Files that survive the process: compiled kernels and derivations, under one private folder.

A file's name is the hash of everything its content depends on, so entries never change; they are
written beside their place and moved into it, and checked against a stored hash when read.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fusegen.errors import BackendError

FORMAT = "fusegen cache 1"
"""Part of every key: raise the number when the meaning of stored files changes."""

_DIGEST = hashlib.sha256
_DIGEST_BYTES = _DIGEST().digest_size


def cache_dir() -> Path:
    """The folder: $FUSEGEN_CACHE_DIR, or fusegen/ in $XDG_CACHE_HOME or ~/.cache.

    Raises BackendError where it cannot be made, or where others could plant files in it: what lies
    there is loaded into the process.
    """
    folder = _wanted_dir()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise BackendError(
            f"the cache folder {folder} cannot be made: {error.strerror or error}. "
            "Set FUSEGEN_CACHE_DIR to a folder of your own."
        ) from error
    if found.st_uid != os.getuid():
        raise BackendError(
            f"the cache folder {folder} belongs to another user. "
            "Set FUSEGEN_CACHE_DIR to a folder of your own."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BackendError(
            f"the cache folder {folder} can be written by others, who could make this program load "
            f"their code. Run chmod 700 {folder}, or set FUSEGEN_CACHE_DIR to another folder."
        )
    return folder


def _wanted_dir() -> Path:
    chosen = os.environ.get("FUSEGEN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(shared) if shared else Path.home() / ".cache") / "fusegen"
    except RuntimeError as error:
        raise BackendError("no home folder is known. Set FUSEGEN_CACHE_DIR.") from error


def artifact(key: Sequence[str | bytes], suffix: str, build: Callable[[Path], None]) -> Path:
    """The file for `key`, built by `build(path)` unless a sound one is there.

    `build` writes to a private path; the file appears under its name only when complete. Threads
    and processes that want the same key at once wait for the first one. What `build` raises passes
    through, and leaves nothing behind.
    """
    folder = cache_dir()
    path = folder / f"{_name(key)}{suffix}"
    if _is_sound(path):
        return path
    with _locked(path.with_name(f"{path.name}.lock")):
        if not _is_sound(path):
            with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as private:
                made = Path(private) / path.name
                build(made)
                _replace(folder, _sum_path(path), _DIGEST(made.read_bytes()).digest())
                made.replace(path)
    return path


def load_bytes(key: Sequence[str | bytes], suffix: str) -> bytes | None:
    """What `store_bytes` put there; None if nothing, or if the file is damaged."""
    path = cache_dir() / f"{_name(key)}{suffix}"
    try:
        held = path.read_bytes()
    except OSError:
        return None
    digest, data = held[:_DIGEST_BYTES], held[_DIGEST_BYTES:]
    return data if _DIGEST(data).digest() == digest else None


def store_bytes(key: Sequence[str | bytes], suffix: str, data: bytes) -> None:
    """Keep `data` for later processes. Raises BackendError where the folder cannot be written."""
    folder = cache_dir()
    _replace(folder, folder / f"{_name(key)}{suffix}", _DIGEST(data).digest() + data)


def _name(key: Sequence[str | bytes]) -> str:
    """Hash of the parts, each with its length, so that ("ab", "c") is not ("a", "bc")."""
    digest = _DIGEST()
    for part in (FORMAT, *key):
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def _sum_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _is_sound(path: Path) -> bool:
    try:
        return _sum_path(path).read_bytes() == _DIGEST(path.read_bytes()).digest()
    except OSError:
        return False


def _replace(folder: Path, path: Path, data: bytes) -> None:
    """Write a whole file or none: readers never see a part of it."""
    handle, private = tempfile.mkstemp(dir=folder, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(private, path)  # noqa: PTH105 (both are on one file system)
    except OSError as error:
        Path(private).unlink(missing_ok=True)
        raise BackendError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file; it is gone afterwards."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_same_file(handle, path):
            break
        os.close(handle)  # the one who held it has removed it: this lock guards nothing
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    ours = os.fstat(handle)
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
