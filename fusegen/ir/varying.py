"""Constants whose value no kernel depends on: floats that a text computes with, and no more.

While a text is traced such a constant is a `Number`. What Python computes of it is written down as
a formula, which every call computes afresh, in Python's own arithmetic, so that kernels get the
very numbers that the text would have had; what Python asks of it (is it greater than 1?) is
written down with the answer, and the graph serves the values that give the same answers. Where the
number itself is asked for (as an exponent, an index, by another library) the constant is settled:
a graph for each of its values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Formula = str | int | float | tuple[Any, ...]
"""A constant by its name, a number, or (operation, formula, …)."""

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "**": operator.pow, "negative": operator.neg, "abs": operator.abs,
}
_QUESTIONS: dict[str, Callable[..., Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}
_BOUNDS = (2.0**-126, 2.0**-13, 2.0**13, (2 - 2.0**-23) * 2.0**127)
"""The least and the greatest normal number of float32, and between them what is of moderate size:
what holds there in floats need not hold at the ends of their range."""


def magnitude_of(value: Any) -> int:
    """What kernels know of a float that float32 holds in full precision: 1 where it is small, 2
    moderate, 3 large, and negative where it is. 0 for all else, of which each has a kernel of its
    own: zeros, infinities, NaN, numbers that vanish or overflow."""
    size = abs(value) if type(value) is float else 0.0
    if not _BOUNDS[0] <= size <= _BOUNDS[3]:
        return 0
    found = 1 if size < _BOUNDS[1] else 2 if size <= _BOUNDS[2] else 3
    return found if value > 0 else -found


def bounds_of(magnitude: int) -> tuple[float, float]:
    """The least and the greatest number of a magnitude."""
    low, high = _BOUNDS[abs(magnitude) - 1 : abs(magnitude) + 1]
    return (low, high) if magnitude > 0 else (-high, -low)


def range_text(name: str, magnitude: int) -> str:
    """What a magnitude means, for people."""
    low, high = ("2^-126", "2^-13", "2^13", "2^128")[abs(magnitude) - 1 : abs(magnitude) + 1]
    return f"{low} ≤ {name} ≤ {high}" if magnitude > 0 else f"-{high} ≤ {name} ≤ -{low}"


def samples_of(magnitude: int) -> tuple[float, ...]:
    """Numbers of a magnitude to try things on: usual ones, and the least and the greatest."""
    usual = {1: (1e-5, 1e-8, 1e-12, 1e-30), 2: (1.0, 0.5, 2.0, 0.1, 10.0), 3: (1e5, 1e10, 1e30)}
    sizes = (*usual[abs(magnitude)], *map(abs, bounds_of(magnitude)))
    return tuple(size if magnitude > 0 else -size for size in sizes)


def computed(formula: Formula, constants: Mapping[str, Any]) -> Any:
    """The formula's value. Raises what Python raises: ZeroDivisionError, OverflowError, …"""
    match formula:
        case str():
            return constants[formula]
        case (operation, *args):
            return _OPERATIONS[operation](*(computed(a, constants) for a in args))
        case _:
            return formula


def names_in(formula: Formula) -> frozenset[str]:
    """The constants that the formula is made of."""
    match formula:
        case str():
            return frozenset([formula])
        case (_, *args):
            return frozenset().union(*map(names_in, args))
        case _:
            return frozenset()


def written(formula: Formula) -> str:
    """The formula as Python has it."""
    match formula:
        case (operation, only):
            return f"-{_inner(only)}" if operation == "negative" else f"abs({written(only)})"
        case (operation, left, right):
            return f"{_inner(left)} {operation} {_inner(right)}"
        case _:
            return str(formula)


def _inner(formula: Formula) -> str:
    plain = not isinstance(formula, tuple) or formula[0] == "abs"
    return written(formula) if plain else f"({written(formula)})"


@dataclass(frozen=True, slots=True)
class Guard:
    """An answer that a graph depends on: of "magnitude", that; of "bits", the very number; of a
    comparison, its truth."""

    question: str
    args: tuple[Formula, ...]
    answer: Any

    def holds(self, constants: Mapping[str, Any]) -> bool:
        """Is the answer the same for these constants?"""
        try:
            values = [computed(a, constants) for a in self.args]
        except (ArithmeticError, TypeError, ValueError):
            return False  # the text itself will say so, at its line
        if self.question == "magnitude":
            return bool(magnitude_of(values[0]) == self.answer)
        if self.question == "bits":
            return type(values[0]) is float and values[0].hex() == self.answer
        return bool(_QUESTIONS[self.question](*values)) is bool(self.answer)

    @property
    def names(self) -> frozenset[str]:
        """The constants that it is about."""
        return frozenset().union(*map(names_in, self.args))

    @property
    def said(self) -> str:
        """What holds, for people."""
        told = [written(a) for a in self.args]
        if self.question == "magnitude":
            return range_text(told[0], self.answer)
        if self.question == "bits":
            return f"{told[0]} = {float.fromhex(self.answer)!r}"
        held = f"{told[0]} {self.question} {told[1]}"
        return held if self.answer else f"not {held}"

    def ask(self, constants: Mapping[str, Any]) -> None:
        """The same of Numbers: the text that they are of depends on the answer as well."""
        values = [computed(a, constants) for a in self.args]
        if self.question in _QUESTIONS:
            _QUESTIONS[self.question](*values)
        elif type(values[0]) is Number:
            values[0].magnitude()


@dataclass(slots=True)
class Book:
    """What one trace asks of its constants."""

    here: Callable[[], Any]  # the line that asks
    symbolic: type  # what a text computes with besides: a number beside one of these is its operand
    guards: dict[Guard, None] = field(default_factory=dict)
    settled: dict[str, str] = field(default_factory=dict)  # by constant: why its number is needed

    def settle(self, formula: Formula, why: str) -> None:
        """A graph of its own for every value of the constants."""
        for name in names_in(formula):
            self.settled.setdefault(name, f"{why}, {self.here()}")


def _binary(operation: str, *, turned: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Number, other: Any) -> Any:
        return self._computed(operation, *((other, self) if turned else (self, other)))

    return method


def _unary(operation: str) -> Callable[[Any], Any]:
    return lambda self: self._computed(operation, self)


def _question(question: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._asked(question, other)


def _numbers(name: str) -> Callable[..., Any]:
    """A method of floats that needs the number."""
    return lambda self, *args: getattr(self.number(), name)(*args)


class Number:
    """A float constant while a text is traced; to Python it is a float."""

    __slots__ = ("_value", "book", "formula")

    def __init__(self, value: float, formula: Formula, book: Book) -> None:
        self._value, self.formula, self.book = value, formula, book

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # whoever asks what it is
        return float

    def number(self, why: str = "the text asks for its number") -> float:
        """The number itself, for what cannot do without."""
        self.book.settle(self.formula, why)
        return self._value

    def magnitude(self) -> int:
        """Of the number, which the graph depends on from now on; if that is 0, on its bits."""
        found = magnitude_of(self._value)
        question, answer = ("magnitude", found) if found else ("bits", self._value.hex())
        self.book.guards[Guard(question, (self.formula,), answer)] = None
        return found

    def _computed(self, operation: str, *args: Any) -> Any:
        if any(isinstance(a, self.book.symbolic) for a in args):
            return NotImplemented  # an operation of the text
        result = _OPERATIONS[operation](*map(raw, args))
        if type(result) is not float or not all(type(a) in _PLAIN for a in args):
            self.number()
            return result
        return Number(result, (operation, *map(_formula, args)), self.book)

    def _asked(self, question: str, other: Any) -> Any:
        if isinstance(other, self.book.symbolic):
            return NotImplemented
        answer = _QUESTIONS[question](self._value, raw(other))
        if type(other) in _PLAIN:
            self.book.guards[Guard(question, (self.formula, _formula(other)), answer)] = None
        else:
            self.number()
        return answer

    __add__, __radd__ = _binary("+"), _binary("+", turned=True)
    __sub__, __rsub__ = _binary("-"), _binary("-", turned=True)
    __mul__, __rmul__ = _binary("*"), _binary("*", turned=True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", turned=True)
    __pow__, __rpow__ = _binary("**"), _binary("**", turned=True)
    __neg__, __abs__ = _unary("negative"), _unary("abs")
    __lt__, __le__, __gt__, __ge__ = map(_question, ("<", "<=", ">", ">="))
    __eq__, __ne__ = map(_question, ("==", "!="))
    __floordiv__, __rfloordiv__ = map(_numbers, ("__floordiv__", "__rfloordiv__"))
    __mod__, __rmod__ = map(_numbers, ("__mod__", "__rmod__"))
    __divmod__, __rdivmod__ = map(_numbers, ("__divmod__", "__rdivmod__"))
    __float__, __int__, __trunc__ = map(_numbers, ("__float__", "__int__", "__trunc__"))
    __round__, __floor__, __ceil__ = map(_numbers, ("__round__", "__floor__", "__ceil__"))
    __str__, __repr__, __format__ = map(_numbers, ("__str__", "__repr__", "__format__"))
    __hash__, __reduce_ex__ = map(_numbers, ("__hash__", "__reduce_ex__"))

    def __pos__(self) -> Number:
        return self

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __array__(self, *args: Any, **named: Any) -> Any:
        return np.asarray(self.number(), *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.number(), name)


_PLAIN = (Number, int, float, bool)


def raw(value: Any) -> Any:
    """The number behind a Number, which nothing is to depend on; other values as they are."""
    return value._value if type(value) is Number else value


def _formula(value: Any) -> Formula:
    return value.formula if type(value) is Number else value
