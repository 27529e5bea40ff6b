"""An exported library, read again: what it says of itself, and its functions."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusegen.backend.cpu.elf import flaw
from fusegen.backend.cpu.loaded import library
from fusegen.ir.errors import ArgumentError, BackendError
from fusegen.ir.version import __version__

FORMAT = 1
"""Of what a library says of itself."""

PREFIX = "libfusegen_"


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
    wrong = flaw(data, [f"{name}_manifest"])
    if wrong:
        raise BackendError(f"{file} cannot be loaded: {wrong}. Export it again.")
    try:
        found = library(data, name)
    except OSError as error:
        raise BackendError(f"{file} cannot be loaded: {error}") from error
    text = found.function(f"{name}_manifest", result=ctypes.c_char_p)()
    record = json.loads(text)
    if (record["format"], record["fusegen"]) != (FORMAT, __version__):
        raise BackendError(f"{file} was exported by fusegen {record['fusegen']}, this is "
                           f"{__version__}: its C functions serve any program, but to load it here "
                           "export it again.")
    return Opened(file, found, record)


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
