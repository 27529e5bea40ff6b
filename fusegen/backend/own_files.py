"""fusegen's own files: where the templates are, and a hash of all that output depends on."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def package_root() -> Path:
    return Path(__file__).parents[1]


def template_root() -> Path:
    """templates/ of the checkout, or its copy inside an installed wheel."""
    packaged = package_root() / "templates"
    return packaged if packaged.is_dir() else package_root().parent / "templates"


_OURS = re.compile(r'^#include "([\w./]+)"\n', re.MULTILINE)


def merged(name: str) -> str:
    """A C++ file of the templates and all that it includes by `"…"`, each once. Names are looked up
    beside the file, then from the root of the templates."""
    root, known = template_root(), set[Path]()

    def text(path: Path) -> str:
        if path in known:
            return ""
        known.add(path)
        beside = path.parent
        found = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
        return _OURS.sub(lambda m: text(next(
            p for p in (beside / m[1], root / m[1]) if p.is_file())), found)

    return text(root / name)


@cache
def sources_digest() -> str:
    """A hash of fusegen's modules and templates: cached results of other versions never match."""
    total = hashlib.sha256()
    for root, entry in _sources():
        total.update(Path(entry).relative_to(root).as_posix().encode())
        total.update(Path(entry).read_bytes())
    return total.hexdigest()


def sources_stamp() -> tuple[str, float]:
    """(where these files lie and what the system notes of each, when the last of them changed). The
    same again: nobody has written to one; that is known in a seventh of the time of a digest."""
    total, last = hashlib.sha256(), 0
    for _, entry in _sources():
        seen = entry.stat()
        last = max(last, seen.st_ctime_ns, seen.st_mtime_ns)
        total.update(f"{entry.path}\0{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} "
                     f"{seen.st_dev} {seen.st_ino}\0".encode(errors="surrogateescape"))
    return total.hexdigest(), last / 1e9


def _sources() -> list[tuple[Path, os.DirEntry[str]]]:
    """(root, file) of everything that output depends on."""
    templates = (".j2", ".h", ".cuh", ".hpp", ".cpp")
    roots = ((package_root(), (".py",)), (template_root(), templates))
    return [(root, entry) for root, suffixes in roots
            for entry in sorted(_files(root, suffixes), key=lambda one: one.path)]


def _files(folder: Path | str, suffixes: tuple[str, ...]) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for one in entries:
            if one.name.endswith(suffixes):
                yield one
            elif one.name != "__pycache__" and one.is_dir():
                yield from _files(one.path, suffixes)
