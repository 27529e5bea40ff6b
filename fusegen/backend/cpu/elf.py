"""Is this a whole shared library for this machine, with these functions? Told from its bytes,
before anything in them runs: a linker that was stopped, or had no room, leaves part of one.

Layout: System V ABI, chapters 4 and 5; 64-bit, in this machine's byte order.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_HEADER = struct.Struct("=4s4B8xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("=IIQQQQQQ")
_SECTION = struct.Struct("=IIQQQQIIQQ")
_SYMBOL = struct.Struct("=IBBHQQ")
_MAGIC, _CLASS64, _SHARED, _DYNSYM = b"\x7fELF", 2, 3, 11
_ORDER = 1 if sys.byteorder == "little" else 2


def flaw(data: bytes, functions: Iterable[str]) -> str:
    """What is wrong with a library; "" for nothing, or where the system has another format."""
    machine = _machine()
    if machine is None:
        return "" if data else "it is empty"
    try:
        return _flaw(data, machine, functions)
    except (struct.error, IndexError, ValueError):
        return "it breaks off"


@cache
def _machine() -> int | None:
    """The machine that this process runs on, as ELF numbers it; None without /proc."""
    try:
        with Path("/proc/self/exe").open("rb") as file:
            header = _HEADER.unpack(file.read(_HEADER.size))
    except (OSError, struct.error):
        return None
    return header[6] if header[0] == _MAGIC and header[1] == _CLASS64 else None


def _flaw(data: bytes, machine: int, functions: Iterable[str]) -> str:
    if not data:
        return "it is empty"
    (magic, bits, order, _, _, kind, code, _, _, segments, sections, _, _,
     segment_size, n_segments, section_size, n_sections, _) = _HEADER.unpack_from(data)
    if magic != _MAGIC or bits != _CLASS64 or order != _ORDER or kind != _SHARED:
        return "it is no shared library"
    if code != machine:
        return "it is for another kind of machine"
    for i in range(n_segments):
        _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(data, segments + i * segment_size)
        if offset + size > len(data):
            return "it breaks off"
    names: set[bytes] = set()
    table = [_SECTION.unpack_from(data, sections + i * section_size) for i in range(n_sections)]
    for _, type_, _, _, offset, size, link, _, _, _ in table:
        if type_ == _DYNSYM:
            names |= set(_defined(data, offset, size, table[link][4]))
    missing = [name for name in functions if name.encode() not in names]
    return f"it lacks {missing[0]}" if missing else ""


def _defined(data: bytes, offset: int, size: int, strings: int) -> Iterable[bytes]:
    """Names of the symbols that the library defines."""
    for at in range(offset, offset + size, _SYMBOL.size):
        name, _, _, section, _, _ = _SYMBOL.unpack_from(data, at)
        if section:
            start = strings + name
            yield data[start : data.index(0, start)]
