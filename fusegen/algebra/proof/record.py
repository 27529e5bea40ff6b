"""A derivation as JSON and back: every entry, expressions as trees, numbers exactly.

The record follows the dataclasses themselves: an object is {"is": class, field: value, …}, so a new
kind of entry or a new field needs nothing here. Reading checks every value against its annotation
and builds nothing but those classes.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from math import nan
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fusegen.ir import derivation as d
from fusegen.ir.errors import ArgumentError, InternalError
from fusegen.ir.expr import Call
from fusegen.ir.ops import OPS

SCHEMA = "fusegen.derivation/1"


def to_json(derivation: d.Derivation) -> str:
    """The record as text; see the module."""
    record = {"schema": SCHEMA, "derivation": _encoded(derivation)}
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> d.Derivation:
    """The derivation of a record. Raises ArgumentError for text that is no such record."""
    try:
        record = json.loads(text, parse_constant=_no_number)
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            raise _Unreadable(f"its schema is not {SCHEMA}")
        found: d.Derivation = _decoded(record.get("derivation"), d.Derivation, "derivation")
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            "this is not the record of a derivation", why=f"{error}.",
            fix="Proof.from_json reads what Proof.to_json wrote.",
        ) from error
    return found


class _Unreadable(ValueError):
    """What is wrong with a record, and where in it."""


def _no_number(word: str) -> None:
    raise _Unreadable(f"{word} is no JSON")


_WRITTEN = {Fraction: re.compile(r"-?\d+(/[1-9]\d*)?"), float: re.compile(r"-?inf|nan")}
"""Numbers that JSON does not have, by their text."""


def _encoded(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        own = {f.name: _encoded(getattr(value, f.name)) for f in fields(value)}
        return {"is": type(value).__name__, **own}
    if isinstance(value, tuple):
        return [_encoded(v) for v in value]
    if isinstance(value, Fraction):
        return {"is": "Fraction", "value": str(value)}
    if isinstance(value, float) and not float("-inf") < value < float("inf"):
        return {"is": "float", "value": repr(value)}
    if value is None or isinstance(value, str | int | float):
        return value
    raise InternalError(f"a derivation holds a {type(value).__name__}")


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _decoded(value: Any, wanted: Any, at: str) -> Any:
    """The value that `wanted`, an annotation, asks for."""
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return _one_of(value, get_args(wanted), at)
    if origin is Literal:
        if value in get_args(wanted):
            return value
    elif origin is tuple:
        return _tuple(value, get_args(wanted), at)
    elif is_dataclass(wanted):
        return _object(value, wanted, at)
    elif isinstance(wanted, type) and issubclass(wanted, Enum):
        return wanted(value)
    elif wanted in _WRITTEN and isinstance(value, dict):
        shown = value.get("value")
        if value.get("is") == wanted.__name__ and isinstance(shown, str) \
                and _WRITTEN[wanted].fullmatch(shown):
            return nan if shown == "nan" else wanted(shown)
    elif type(value) is wanted or (wanted is types.NoneType and value is None):
        return value
    raise _Unreadable(f"{at} is {_short(value)}")


def _one_of(value: Any, members: tuple[Any, ...], at: str) -> Any:
    for member in members:
        try:
            return _decoded(value, member, at)
        except _Unreadable:
            if isinstance(value, dict) and value.get("is") == getattr(member, "__name__", None):
                raise
    raise _Unreadable(f"{at} is {_short(value)}")


def _tuple(value: Any, members: tuple[Any, ...], at: str) -> tuple[Any, ...]:
    if isinstance(value, list):
        if members[-1] is ...:
            return tuple(_decoded(v, members[0], f"{at}[{i}]") for i, v in enumerate(value))
        if len(value) == len(members):
            return tuple(_decoded(v, m, at) for v, m in zip(value, members, strict=True))
    raise _Unreadable(f"{at} is {_short(value)}")


def _object(value: Any, cls: Any, at: str) -> Any:
    if not isinstance(value, dict) or value.get("is") != cls.__name__:
        raise _Unreadable(f"{at} is {_short(value)}")
    given = {name: v for name, v in value.items() if name != "is"}
    if given.keys() != {f.name for f in fields(cls)}:
        raise _Unreadable(f"{at} has the fields {sorted(given)}")
    hints = _hints(cls)
    found = cls(**{n: _decoded(v, hints[n], f"{at}.{n}") for n, v in given.items()})
    if isinstance(found, Call) and (found.op not in OPS or OPS[found.op].arity != len(found.args)):
        raise _Unreadable(f"{at} calls {found.op} with {len(found.args)} operands")
    return found


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
