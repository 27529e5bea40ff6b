"""Plain data as text and back: what the disk cache holds, by the fields of frozen dataclasses.

The text is a JSON list: scalars, and [maker, place, …] for a value made of earlier ones; the last
is the whole. So what is shared is written once, and neither way recurses. Reading follows the
annotations of the class that is asked for: it makes nothing but the classes that these name, and
every field is checked against its own. Nothing in the text is ever executed.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from fusegen.ir.expr import Call
from fusegen.ir.ops import OPS

_T = TypeVar("_T")
_Fits = Callable[[Any], bool]
_Maker = Callable[[list[Any]], Any]

_SCALARS = frozenset([str, int, float, bool, types.NoneType])
_UNBOUNDED = ("inf", "-inf", "nan")  # floats that JSON does not have


class Unwritable(TypeError):
    """A value that the codec has no text for."""


class Unreadable(ValueError):
    """Text that is not that of a value of the class asked for."""


# ---- writing ----


def encoded(value: object) -> bytes:
    """The text of a value. Raises Unwritable for what is not made of dataclasses, tuples, enums,
    fractions and scalars."""
    items: list[Any] = []
    place: dict[int, int] = {}  # by identity
    known: dict[Any, int] = {}  # by what stands in the text
    alive: list[tuple[Any, ...]] = []  # parts made here: an identity is one only while they live
    stack: list[tuple[Any, tuple[str, tuple[Any, ...]] | None]] = [(value, None)]
    while stack:
        one, apart = stack.pop()
        if id(one) in place:
            continue
        if apart is None and not _is_scalar(one):
            name, parts = _taken_apart(one)
            alive.append(parts)
            stack.append((one, (name, parts)))
            stack += [(p, None) for p in reversed(parts)]
            continue
        item = one if apart is None else [apart[0], *(place[id(p)] for p in apart[1])]
        written = repr(one) if type(one) is float else one  # 0.0 is not -0.0
        key = (type(one), written) if apart is None else tuple(item)
        if key not in known:
            known[key] = len(items)
            items.append(item)
        place[id(one)] = known[key]
    if place[id(value)] != len(items) - 1:  # it stands in another's place
        items.append(items[place[id(value)]])
    try:
        return json.dumps(items, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:  # a whole number of more digits than Python writes
        raise Unwritable(str(error)) from error


def _is_scalar(value: object) -> bool:
    return type(value) in _SCALARS and not (type(value) is float and repr(value) in _UNBOUNDED)


def _taken_apart(value: Any) -> tuple[str, tuple[Any, ...]]:
    """(maker, what it makes the value of)."""
    cls = type(value)
    if cls is tuple:
        return "tuple", value
    if is_dataclass(cls):
        return cls.__name__, tuple(getattr(value, f.name) for f in fields(cls))
    if isinstance(value, Enum):
        return cls.__name__, (value.value,)
    if cls is Fraction:
        return "Fraction", (value.numerator, value.denominator)
    if cls is float:
        return "float", (repr(value),)
    raise Unwritable(f"there is no text for a {cls.__name__}")


# ---- reading ----


def decoded(text: bytes, kind: type[_T]) -> _T:
    """The value of class `kind` that the text holds. Raises Unreadable for any other text."""
    wanted: Any = kind
    makers = _makers(wanted)
    values: list[Any] = []
    try:
        items = json.loads(text, parse_constant=_no_constant)
        for item in items:
            if type(item) is list:
                name, *places = item
                item = makers[name]([values[p] for p in places])
            values.append(item)
        found: _T = values[-1]
    except (ValueError, KeyError, IndexError, TypeError, ArithmeticError,
            RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    if not _fits(wanted)(found):
        raise Unreadable(f"it holds a {type(found).__name__}, not a {kind.__name__}")
    return found


@cache
def _makers(kind: Any) -> _Makers:
    return _Makers(kind)


class _Makers(dict[str, _Maker]):
    """Of the classes that a value of this kind may be made of, by name; made when asked for."""

    def __init__(self, kind: Any) -> None:
        super().__init__({"tuple": tuple, "float": _unbounded})
        self.classes = {cls.__name__: cls for cls in _reachable(kind)}

    def __missing__(self, name: str) -> _Maker:
        self[name] = found = _maker(self.classes[name])
        return found


def _reachable(kind: Any) -> set[Any]:
    """The classes that annotations of fields name, and those of these classes, and so on."""
    found: set[Any] = set()
    todo = [kind]
    while todo:
        one = todo.pop()
        if not isinstance(one, type):
            todo += get_args(one)  # a union, or what else has a name of its own
        elif one not in found and (is_dataclass(one) or issubclass(one, Fraction | Enum)):
            found.add(one)
            known = vars(sys.modules[one.__module__])
            todo += [known[word] for word in _annotations(one).co_names if word in known]
    return found


@cache
def _annotations(cls: Any) -> types.CodeType:
    """Those of all fields as one tuple: texts of ours, which `typing` would compile one by one."""
    texts = [f.type for f in fields(cls)] if is_dataclass(cls) else []
    return compile(f"({''.join(f'{text},' for text in texts)})", cls.__name__, "eval")


def _maker(cls: Any) -> _Maker:
    if is_dataclass(cls):
        return _object(cls)
    if cls is Fraction:
        return lambda parts: Fraction(*map(_whole, parts))
    return lambda parts: cls(*parts)  # an enum's member, by its value


def _object(cls: Any) -> _Maker:
    names = [f.name for f in fields(cls)]
    checks = [_fits(a) for a in eval(_annotations(cls), vars(sys.modules[cls.__module__]))]

    def make(parts: list[Any]) -> Any:
        for name, fits, part in zip(names, checks, parts, strict=True):
            if not fits(part):
                raise Unreadable(f"{cls.__name__}.{name} is a {type(part).__name__}")
        found = cls(**dict(zip(names, parts, strict=True)))
        if cls is Call and (found.op not in OPS or OPS[found.op].arity != len(found.args)):
            raise Unreadable(f"{found.op} is called with {len(found.args)} operands")
        return found

    return make


def _whole(part: Any) -> int:
    if type(part) is not int:
        raise Unreadable("a fraction of what is no whole number")
    return part


def _unbounded(parts: list[Any]) -> float:
    (text,) = parts
    if text not in _UNBOUNDED:
        raise Unreadable("a float that has a text of its own")
    return float(text)


def _no_constant(word: str) -> None:
    raise Unreadable(f"{word} is no JSON")


@cache
def _fits(wanted: Any) -> _Fits:
    """Is a value what the annotation says? Values inside of dataclasses were checked before."""
    origin, members = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        plain = frozenset(m for m in members if get_origin(m) is None)
        others = [_fits(m) for m in members if m not in plain]
        return lambda v: type(v) in plain or any(fits(v) for fits in others)
    if origin is Literal:
        allowed = frozenset((type(m), m) for m in members)
        return lambda v: type(v) in _SCALARS and (type(v), v) in allowed
    if origin is tuple and members[-1:] == (...,):
        each = _fits(members[0])
        return lambda v: type(v) is tuple and all(map(each, v))
    if origin is tuple:
        parts = [_fits(m) for m in members]
        return lambda v: type(v) is tuple and len(v) == len(parts) and all(
            fits(part) for fits, part in zip(parts, v, strict=True))
    if origin is not None or not isinstance(wanted, type):
        raise TypeError(f"the codec knows no values of {wanted}")
    return lambda v: type(v) is wanted
