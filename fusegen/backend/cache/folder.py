"""The cache folder: where it is, whether it can be trusted, and files in it by its descriptor.

What lies there is loaded into the process, so nobody else may be able to put it there. As sshd does
for keys, every folder on the way is checked: it belongs to this user or to root, and others cannot
write to it (unless only owners may rename what is theirs, as in /tmp). The way is walked by
descriptors, so what was checked is what is used.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex

from fusegen.backend.notices import LOG
from fusegen.ir.errors import BackendError

WRITING = ".writing-"  # begins the names of files that are not complete

_HERE = os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_STEP = _HERE | getattr(os, "O_PATH", os.O_RDONLY)  # folders on the way need not be readable
_MOST_LINKS = 40  # as the kernel's own limit
_TOUCH_AFTER = 3600.0  # seconds: a file read again sooner counts as read when it last was


@dataclass(frozen=True, slots=True)
class Held:
    """A file of the folder."""

    name: str
    n_bytes: int
    used: float  # seconds since the epoch


def chosen() -> Path:
    """The folder: $FUSEGEN_CACHE_DIR, or fusegen/ in $XDG_CACHE_HOME or ~/.cache. Raises
    BackendError where no home is known."""
    own, shared = os.environ.get("FUSEGEN_CACHE_DIR"), Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if own:
            return _absolute(own)
        # The XDG specification: a relative path is to be ignored.
        return (shared if shared.is_absolute() else Path.home() / ".cache") / "fusegen"
    except RuntimeError as error:
        raise BackendError("no home folder is known. Set FUSEGEN_CACHE_DIR.") from error


@cache
def _absolute(text: str) -> Path:
    """Once per process: it stays where it was when the working folder changes."""
    return Path(text).expanduser().absolute()


@contextmanager
def opened() -> Iterator[Folder]:
    """The folder, made if need be, for its owner alone. Raises BackendError where that cannot be,
    or where others could plant files in it."""
    path = chosen()
    try:
        place = _walked(path)
    except OSError as error:
        raise BackendError(
            f"the cache folder {path} cannot be used: {error.strerror or error}. "
            "Set FUSEGEN_CACHE_DIR to a folder of your own."
        ) from error
    try:
        yield Folder(path, place)
    finally:
        os.close(place)


def _walked(path: Path) -> int:
    """A descriptor of the folder; each part on the way is made, if need be, and checked."""
    todo, links, at = list(reversed(path.parts[1:])), 0, Path("/")
    places = [os.open("/", _STEP)]
    try:
        while todo:
            place = places[-1]
            _check(os.fstat(place), at, path)
            part = todo.pop()
            link = _link(part, place, at, path)
            if link is None:
                places.append(_entered(part, place))
                at /= part
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"more than {_MOST_LINKS} symbolic links")
            if link.startswith("/"):
                places.append(os.open("/", _STEP))
                at = Path("/")
            todo += [p for p in reversed(Path(link).parts) if p != "/"]
        _check_own(os.fstat(places[-1]), path)
        return os.open(".", _HERE | os.O_RDONLY, dir_fd=places[-1])
    finally:
        while places:
            os.close(places.pop())  # out of the list first: never twice, whatever a signal does


def _entered(part: str, place: int) -> int:
    """The folder `part` in `place`."""
    try:
        return os.open(part, _STEP, dir_fd=place)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=place)
        return os.open(part, _STEP, dir_fd=place)


def _link(part: str, place: int, at: Path, path: Path) -> str | None:
    """Where a symbolic link leads; None where it is none."""
    try:
        found = os.stat(part, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(found.st_mode):
        return None
    if found.st_uid not in (0, os.geteuid()):
        raise _untrusted(path, f"{at / part} is a symbolic link of another user's")
    return os.readlink(part, dir_fd=place)


def _check(found: os.stat_result, at: Path, path: Path) -> None:
    """May what lies in this folder on the way be trusted to stay what it is?"""
    if found.st_uid not in (0, os.geteuid()):
        raise _untrusted(path, f"{at} belongs to another user")
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if shared and not found.st_mode & stat.S_ISVTX:
        raise _untrusted(path, f"{at} can be written by others (chmod go-w {at})")


def _check_own(found: os.stat_result, path: Path) -> None:
    if found.st_uid != os.geteuid():
        raise _untrusted(path, "it belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _untrusted(path, f"it can be written by others (chmod 700 {path})")


def _untrusted(path: Path, why: str) -> BackendError:
    return BackendError(
        f"the cache folder {path} is not used: {why}. Others could make this program load their "
        "code. Set FUSEGEN_CACHE_DIR to a folder of your own."
    )


class Folder:
    """The cache folder, open."""

    def __init__(self, path: Path, place: int) -> None:
        self.path, self._place = path, place

    def read(self, name: str, *, touch: bool = True) -> bytes | None:
        """A whole file; None without one, or if it is not this user's own. It counts as used,
        unless it was only looked at."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe never answers
        try:
            handle = os.open(name, flags, dir_fd=self._place)
        except OSError:
            return None
        found = os.fstat(handle)
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or shared:
            LOG.warning("cache: %s in %s is not this user's own file", name, self.path)
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            if touch and time.time() - found.st_mtime > _TOUCH_AFTER:
                with suppress(OSError):  # a folder that can only be read
                    os.utime(handle)
            try:
                return file.read()
            except OSError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """A whole file or none: readers never see a part of it. Raises OSError."""
        private = f"{WRITING}{os.getpid()}-{token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(private, flags, 0o600, dir_fd=self._place), "wb") as file:
                file.write(data)
            os.rename(private, name, src_dir_fd=self._place, dst_dir_fd=self._place)
        except BaseException:
            self.remove(private)
            raise

    def remove(self, name: str) -> bool:
        """Is it gone by this?"""
        try:
            os.unlink(name, dir_fd=self._place)
        except OSError:
            return False
        return True

    def open_lock(self, name: str) -> int:
        """A descriptor of a file to lock. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=self._place)

    def is_file(self, name: str, handle: int) -> bool:
        """Is the open file the one of that name?"""
        try:
            there = os.stat(name, dir_fd=self._place, follow_symlinks=False)
        except OSError:
            return False
        ours = os.fstat(handle)
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def files(self) -> Iterator[Held]:
        """Every file. What other processes remove meanwhile is left out."""
        with os.scandir(self._place) as found:
            for entry in found:
                with suppress(FileNotFoundError):
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        yield Held(entry.name, about.st_size, about.st_mtime)
