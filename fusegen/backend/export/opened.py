"""An exported library, read again: what it says of itself, and its functions."""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fusegen.backend.cpu.elf import flaw
from fusegen.backend.cpu.loaded import library
from fusegen.backend.own_files import package_root, template_root
from fusegen.ir.errors import ArgumentError, BackendError
from fusegen.ir.version import __version__

PREFIX = "libfusegen_"

_CALLED = ("cpu/partials/entries.cpp.j2", "cpu/partials/row.cpp.j2")
_CALLERS = ("backend/cpu/launch.py", "backend/cpu/table.py", "backend/cuda/prebuilt.py",
            "backend/export/library.py")


@dataclass(frozen=True, slots=True)
class Opened:
    """`functions`: a loaded.Library."""

    path: Path
    functions: Any
    record: Mapping[str, Any]


def opened(path: Path) -> Opened:
    """The library there: a file, or the folder that `export` wrote. Its code is run. Raises
    ArgumentError where there is none, BackendError where it is not for this fusegen or machine."""
    file = _file(path)
    name = file.name.removeprefix(PREFIX).removesuffix(".so")
    data = file.read_bytes()
    wrong = flaw(data, [])
    if wrong:
        raise BackendError(f"{file} cannot be loaded: {wrong}. Export it again.")
    if flaw(data, [f"{name}_manifest"]):
        raise ArgumentError(f"{file} is no library that fusegen exported under this name",
                            why=f"It has no {name}_manifest.",
                            fix=f"Give the folder that export wrote, or the {PREFIX}….so in its "
                            "lib, with the name that it has there.")
    try:
        found = library(data, name)
    except OSError as error:
        raise BackendError(f"{file} cannot be loaded: {error}") from error
    text = found.function(f"{name}_manifest", result=ctypes.c_char_p)()
    record = json.loads(text)
    if (record.get("fusegen"), record.get("called")) != (__version__, called()):
        raise BackendError(f"{file} was exported by another fusegen, {record.get('fusegen')}; this "
                           f"is {__version__}, which may call kernels otherwise. Its C functions "
                           "serve any program, but to load it here export it again.")
    return Opened(file, found, record)


@cache
def called() -> str:
    """A hash of the files that say how kernels of a library are called: two checkouts of one
    version may differ in them, and what is called otherwise than it was compiled for tears memory
    apart."""
    total = hashlib.sha256()
    for path in (*(template_root() / name for name in _CALLED),
                 *(package_root() / name for name in _CALLERS)):
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob(f"lib/{PREFIX}*.so"))
    if len(found) == 1:
        return found[0]
    if found:
        raise ArgumentError(f"{path} holds {len(found)} libraries",
                            fix=f"Name one: {found[0]}.")
    raise ArgumentError(f"there is no exported library in {path}",
                        fix="Give the folder that export wrote, or the .so in its lib.")
