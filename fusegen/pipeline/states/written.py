"""States as bytes: a layout that says all of itself, read without executing anything.

    0   8  magic
    8   4  version
    12  4  bytes of the header, a multiple of 8
    16  8  checksum: BLAKE2b of the header and of all that follows
    24     header: JSON, in ASCII, spaces at its end
    …      the states, row after row, laid out as the header says

Whole numbers are little-endian, and so are the states' fields.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fusegen.backend.arrays.columns import MOST
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError, DTypeError
from fusegen.ir.literals import constant_key
from fusegen.ir.state_layout import StateLayout
from fusegen.lang.signature import Signature
from fusegen.pipeline.states.columns import Spans

MAGIC, VERSION = b"\x93fgstate", 1
_HEAD = struct.Struct("<8sII8s")
_FIELDS = ("pipeline", "operator", "fields", "n_bytes", "inputs", "constants", "rows", "n_cols",
           "columns")


@dataclass(frozen=True, slots=True)
class Header:
    """All that is said of states beside their bytes. layout: as `_said` says it."""

    pipeline: str
    layout: tuple[str, Any, int]
    dtypes: tuple[tuple[str, DType], ...]
    constants: tuple[tuple[str, Any], ...]
    rows: tuple[int, ...]
    n_cols: int
    columns: Spans


def said(layout: StateLayout) -> tuple[str, Any, int]:
    """(digest of ⊕, [name, type, count, offset] of each field, bytes of a row) of a layout."""
    fields = [[f.name, str(f.dtype), f.count, f.offset] for f in layout.fields]
    return layout.digest, fields, layout.n_bytes


def encoded(header: Header, states: memoryview) -> bytes:
    """The bytes of such states."""
    digest, fields, n_bytes = header.layout
    values = (
        header.pipeline, digest, fields, n_bytes, [[n, str(d)] for n, d in header.dtypes],
        [[n, _spelled(v)] for n, v in header.constants], header.rows, header.n_cols,
        header.columns)
    text = json.dumps(dict(zip(_FIELDS, values, strict=True)), separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((_HEAD.pack(MAGIC, VERSION, len(text), checksum(text, states)), text, states))


def of_nothing(name: str, constants: Mapping[str, Any]) -> bytes:
    """What an accumulator without states says of itself."""
    header = Header(name, ("", [], 0), (), tuple(constants.items()), (), 0, ())
    return encoded(header, memoryview(b""))


def decoded(
    name: str, signature: Signature, data: Any, constants: Mapping[str, Any]
) -> tuple[Header, memoryview]:
    """(what is said of them, the states). name: of the pipeline whose they shall be. constants:
    values of those that have no text. Raises ArgumentError."""
    header, body = _parts(data)
    if header["pipeline"] != name:
        raise ArgumentError(f"these are states of {header['pipeline']}, not of {name}",
                            fix="Give the pipeline that made them.")
    try:
        dtypes = tuple((str(n), dtype_of(str(d))) for n, d in _list(header["inputs"]))
        layout = header["operator"], header["fields"], _count(header["n_bytes"])
        found = Header(
            name, layout, dtypes, _constants(name, _list(header["constants"]), constants),
            tuple(map(_count, _list(header["rows"]))), *_seen(header))
    except (DTypeError, TypeError, ValueError, ArithmeticError) as error:
        raise broken(f"its header says {error}") from None
    _check_signature(name, signature, found)
    if len(body) != math.prod(found.rows) * found.layout[2]:
        raise broken(f"{len(body)} bytes follow the header, not {found.layout[2]} for each of the "
                      f"rows {found.rows}")
    return found, body


def check_layout(name: str, found: Header, layout: StateLayout) -> None:
    """Raises ArgumentError where the states are of another operator than the pipeline's."""
    if found.layout != said(layout):
        raise ArgumentError(f"these states are of another operator than that of {name}",
                            why=f"Its states are {layout}; the text of {name}, or fusegen, has "
                            "changed since they were written.",
                            fix="Make them again, or finish them with what wrote them.")


def _parts(data: Any) -> tuple[dict[str, Any], memoryview]:
    """(the header, what follows). Raises ArgumentError."""
    view = as_bytes(data)
    if len(view) < _HEAD.size or view[: len(MAGIC)] != MAGIC:
        raise ArgumentError("this data holds no states", fix="Give what States.to_bytes returned.",
                            why=f"They begin with {MAGIC!r}.")
    _, version, length, said = _HEAD.unpack(view[: _HEAD.size])
    if version != VERSION:
        raise of_another_version(version, VERSION)
    text, body = view[_HEAD.size : _HEAD.size + length], view[_HEAD.size + length :]
    if checksum(text, body) != said:
        raise broken("its checksum is another one")
    try:
        found = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise broken(f"its header is no JSON: {error}") from None
    if not isinstance(found, dict) or set(found) != set(_FIELDS):
        raise broken("its header says other things than it should")
    return found, body


def as_bytes(data: Any) -> memoryview:
    """Raises ArgumentError for what has none."""
    try:
        return memoryview(data).cast("B")
    except TypeError:
        raise ArgumentError(f"data is {type(data).__name__}, no bytes",
                            fix="Give what to_bytes returned.") from None


def of_another_version(version: int, ours: int) -> ArgumentError:
    """For bytes whose layout is not known here."""
    return ArgumentError(f"these states are of version {version}, this fusegen reads {ours}",
                         fix="Read and write them with the same version of fusegen.")


def broken(why: str) -> ArgumentError:
    return ArgumentError("this data was cut off, or changed, since states were written",
                         why=f"{why[0].upper()}{why[1:]}.", fix="Send or store it again.")


def checksum(*parts: bytes | memoryview) -> bytes:
    """Of all that they hold, one after the other."""
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        found.update(part)
    return found.digest()


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} where a count should be")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.40} where a list should be")
    return value


def _seen(header: Mapping[str, Any]) -> tuple[int, Spans]:
    """(how many columns, which of them): rising spans, of no more columns than there are."""
    n_cols, bounds = _count(header["n_cols"]), _list(header["columns"])
    spans = tuple((_count(i), _count(j)) for i, j in map(_list, bounds))
    ends = [-1, *(end for one in spans for end in one), MOST + 1]
    if any(i >= j for i, j in pairwise(ends)) or not sum(j - i for i, j in spans) <= n_cols <= MOST:
        raise ValueError(f"{n_cols} columns, {spans}")
    return n_cols, spans


def _check_signature(name: str, signature: Signature, found: Header) -> None:
    arrays, constants = {*dict(found.dtypes)}, {*dict(found.constants)}
    needed = {*signature.arrays} - signature.optional if found.layout[2] else set()
    if not needed <= arrays <= {*signature.arrays} or constants != {*signature.constants}:
        raise ArgumentError(
            f"these states are of a {name} with other parameters",
            why=f"They are of {', '.join((*sorted(arrays), *(f'{c}=' for c in constants)))}.",
            fix="Give the pipeline that made them.")


# ---- constants ----


def _spelled(value: Any) -> list[Any]:
    """[kind, text]; of what has no text, how it is known again."""
    return _text(value) or ["given", _known_by(value)]


def _text(value: Any) -> list[Any] | None:
    kind = type(value)
    if kind is tuple:
        parts = [_text(v) for v in value]
        return None if None in parts else ["tuple", parts]
    if kind is float:
        return ["float", value.hex()]
    if kind is int:
        return ["int", hex(value)]
    return [kind.__name__, value] if kind in (bool, str, type(None)) else None


def _known_by(value: Any) -> str:
    return hashlib.blake2b(repr(constant_key(value)).encode(), digest_size=16).hexdigest()


def _constants(
    name: str, said: Any, given: Mapping[str, Any]
) -> tuple[tuple[str, Any], ...]:
    """Values by name. Raises ArgumentError where one that has no text is not given, or is not the
    one that it was."""
    found = []
    for key, spelling in said:
        value = _value(name, key, spelling, given)
        if key in given and constant_key(given[key]) != constant_key(value):
            raise ArgumentError(f"these states of {name} are for another {key}",
                                why=f"It was {value!r:.60}.", fix=f"Leave {key} away.")
        found.append((str(key), value))
    unknown = [n for n in given if n not in dict(found)]
    if unknown:
        raise ArgumentError(f"{name} has no constant {unknown[0]!r}")
    return tuple(found)


def _value(name: str, key: str, spelling: Any, given: Mapping[str, Any]) -> Any:
    kind, text = spelling
    match kind:
        case "tuple":
            return tuple(_value(name, key, one, given) for one in text)
        case "float":
            return float.fromhex(text)
        case "int":
            return int(text, 16)
        case "bool" | "str" | "NoneType" if type(text).__name__ == kind:
            return text
        case "given":
            if key not in given:
                raise ArgumentError(f"these states of {name} need its {key}",
                                    why="It is of a type that has no text.",
                                    fix=f"Give it again: from_bytes(p, data, {key}=…).")
            if _known_by(given[key]) != text:
                raise ArgumentError(f"these states of {name} are for another {key}",
                                    why=f"It was not {given[key]!r:.60}.",
                                    fix="Give the one that they were made with.")
            return given[key]
        case _:
            raise ValueError(f"a constant of kind {kind!r:.20}")
