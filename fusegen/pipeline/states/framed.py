"""Several states as bytes, each with a number.

    0   8  magic
    8   4  version
    12  4  how many follow
    16  8  checksum of all that follows
    24     for each its number (8 bytes), the length of its bytes (8), and these

Whole numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from fusegen.ir.errors import ArgumentError
from fusegen.pipeline.states.written import as_bytes, broken, checksum, of_another_version

VERSION = 1
_HEAD, _PART = struct.Struct("<8sII8s"), struct.Struct("<QQ")


def framed(magic: bytes, parts: Sequence[tuple[int, bytes]]) -> bytes:
    """The bytes of all parts."""
    body = b"".join(_PART.pack(number, len(part)) + part for number, part in parts)
    return _HEAD.pack(magic, VERSION, len(parts), checksum(body)) + body


def unframed(magic: bytes, what: str, data: Any) -> list[tuple[int, memoryview]]:
    """The parts, one at least. Raises ArgumentError for bytes that hold no such thing."""
    view = as_bytes(data)
    if len(view) < _HEAD.size or view[: len(magic)] != magic:
        raise ArgumentError(f"this data holds no {what}",
                            fix="Give what to_bytes of such a one returned.")
    _, version, count, said = _HEAD.unpack(view[: _HEAD.size])
    if version != VERSION:
        raise of_another_version(version, VERSION)
    parts, rest = [], view[_HEAD.size :]
    if checksum(rest) != said:
        raise broken("its checksum is another one")
    while len(rest) >= _PART.size:
        number, length = _PART.unpack(rest[: _PART.size])
        parts.append((number, rest[_PART.size : _PART.size + length]))
        rest = rest[_PART.size + length :]
    if len(rest) or not parts or len(parts) != count:
        raise broken("it holds other states than it says")
    return parts
