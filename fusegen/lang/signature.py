"""A pipeline's parameters: arrays by position, constants by keyword."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fusegen.ir.errors import ArgumentError, TraceError
from fusegen.ir.literals import as_index, constant, constant_key, is_whole, plain
from fusegen.ir.loc import Loc
from fusegen.ir.nearest import nearest
from fusegen.ir.varying import Number, raw
from fusegen.lang.advice import lasting
from fusegen.lang.annotations import axis_of, constant_of
from fusegen.lang.value import Value
from fusegen.lang.written import def_loc, parameter_loc

_SHOWN = ("source", "plan", "derivation", "explain")
_MADE = ("compile", *_SHOWN)
_COMPILED = "what compile returns"
RESERVED: Mapping[str, tuple[str, ...]] = {
    "axis": ("calls", "reference", _COMPILED), "keepdims": ("calls", "reference", _COMPILED),
    "out": ("calls", _COMPILED),
    "device": ("calls",), "form": ("calls", *_MADE), "deterministic": ("calls", *_MADE),
    "precision": ("calls", *_MADE),
    "target": _MADE, "chunk": _MADE, "tune": ("compile",),
    "dtype": _SHOWN, "inputs": _SHOWN, "n_cols": _SHOWN, "n_rows": _SHOWN, "role": _SHOWN,
}
"""Words that are no parameter's name, and what takes them; compiled objects take those of calls
that say nothing about the kernel."""
_OF_CALLS = tuple(n for n, takers in RESERVED.items() if "calls" in takers)
_ELSEWHERE = {"dim": "axis", "axes": "axis", "keepdim": "keepdims"}  # other libraries' words
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """Names of the array parameters, which of them may be missing, and the constants' defaults."""

    name: str
    arrays: tuple[str, ...]
    optional: frozenset[str]
    constants: Mapping[str, Any]  # default, or REQUIRED
    fixed: frozenset[str] = frozenset()  # constants annotated fg.Constant
    positive: Mapping[str, Loc] = field(default_factory=dict)  # annotated fg.Positive, and where

    def bind_arrays(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by name; None counts as absent. Raises ArgumentError."""
        bound = self.given_again(given, named)
        missing = [n for n in self.arrays if n not in bound and n not in self.optional]
        if missing:
            raise ArgumentError(f"{self.name} misses {', '.join(missing)}",
                                why=f"It takes {self._takes()}.", fix=self._bound())
        return bound

    def given_again(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """As `bind_arrays`, of which some may be missing."""
        if len(given) > len(self.arrays):
            raise ArgumentError(
                f"{self.name} takes {self._takes()}, got {len(given)}",
                fix="Constants are passed by keyword.",
            )
        bound = dict(zip(self.arrays, given, strict=False))
        for name, value in named.items():
            if name not in self.arrays:
                raise self._fixed(name)
            if name in bound:
                raise ArgumentError(f"{self.name} got {name} twice")
            bound[name] = value
        return {n: bound[n] for n in self.arrays if bound.get(n) is not None}

    def _bound(self) -> str:
        """How to call what looks like a method and was called of its class."""
        match self.arrays[0]:
            case "self":
                return f"A method is called of an instance: Class(…).{self.name}(…)."
            case "cls":
                return f"Write @classmethod alone, and fg.pipeline(Class.{self.name}) after it."
            case _:
                return ""

    def _takes(self) -> str:
        shown = [f"[{n}]" if n in self.optional else n for n in self.arrays]
        return f"{len(shown)} array{'s' if len(shown) != 1 else ''} ({', '.join(shown)})"

    def bind_constants(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every constant's value. Raises ArgumentError for unknown, missing or unusable ones."""
        bound = self.known_constants(given)
        missing = self.missing(given)
        if missing:
            raise ArgumentError(f"{self.name} needs the constant {missing[0]}",
                                fix=f"Pass {missing[0]}=… by keyword.")
        return bound

    def known_constants(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """As `bind_constants`; those that are missing are REQUIRED."""
        bound = dict(self.constants)
        for name, value in given.items():
            if name not in self.constants:
                raise self._unknown(name)
            bound[name] = constant(value)
            # Of a number that varies nothing is asked: the answer would be part of the graph.
            if hasattr(raw(bound[name]), "__dlpack__") and _is_hashable(raw(bound[name])):
                raise self.array_as_constant(name, type(value).__name__)
        for name, where in self.positive.items():
            bound[name] = self._checked(name, bound[name], where)
        try:
            hash(tuple(map(raw, bound.values())))  # defaults among them
        except TypeError:
            raise self._unusable(bound) from None
        return bound

    def missing(self, given: Collection[str]) -> tuple[str, ...]:
        """Constants that have no default, of those that are not given."""
        return tuple(n for n, v in self.constants.items() if v is REQUIRED and n not in given)

    def _checked(self, name: str, value: Any, where: Loc) -> Any:
        """A constant annotated fg.Positive, as a float; None where that is its default."""
        known = type(value) is Number and value.magnitude() > 0
        open_ = self.constants[name] is None
        if known or value is REQUIRED or isinstance(value, Value) or (open_ and value is None):
            return value
        number = plain(value)
        if number is None or isinstance(number, bool) or not 0 < number <= sys.float_info.max:
            raise ArgumentError(f"{self.name}: {name} is {value!r:.60}, no finite number above 0",
                                where=where, why=f"{name} is annotated fg.Positive.",
                                fix=f"Choose a number above 0{', or None' if open_ else ''}; where "
                                "others make sense, leave the annotation out.")
        return float(number)

    def check_positive(self, wide: bool, constants: Mapping[str, Any]) -> None:
        """Raises ArgumentError where a constant annotated fg.Positive is none as a kernel computes
        with it: in float64 if `wide`, else in float32."""
        compute = np.float64 if wide else np.float32
        for name, where in self.positive.items():
            if constants[name] is None:
                continue
            with np.errstate(over="ignore", under="ignore"):
                value = compute(constants[name])
            if not 0 < value < np.inf:
                raise ArgumentError(
                    f"{self.name}: {name} is {constants[name]!r:.60}, which is {value:g} in "
                    f"{value.dtype}", where=where,
                    why=f"{name} is annotated fg.Positive, and these inputs are computed in "
                    f"{value.dtype}.",
                    fix="Take another number, or inputs of float64.")

    def _unusable(self, bound: Mapping[str, Any]) -> ArgumentError:
        """For constants of which one cannot be hashed."""
        name, value = next((n, v) for n, v in bound.items() if not _is_hashable(v))
        return ArgumentError(
            f"{self.name}: constant {name} is {type(value).__name__}",
            why="Constants become part of the kernel: numbers, strings, tuples, records.",
            fix=lasting(name, value))

    def array_as_constant(self, name: str, kind: str) -> ArgumentError:
        """For one that is an array, if of one number: torch's, which are told apart by where they
        are."""
        return ArgumentError(
            f"{self.name}: constant {name} is an array ({kind})",
            why="Constants are numbers that are known when the kernel is called.",
            fix=f"Pass {name}.item(); what differs by row, or has a gradient, is an array of the "
            "pipeline, annotated fg.PerRow.")

    def _fixed(self, name: str) -> ArgumentError:
        """For what a compiled object is called with."""
        if name not in self.constants and name not in RESERVED:
            return self._unknown(name)
        return ArgumentError(f"what {self.name} was compiled to got {name}",
                             why="It takes arrays, axis, keepdims and out: all else was settled "
                             "when it was compiled.",
                             fix=f"Leave {name} out, or call {self.name} itself.")

    def _unknown(self, name: str) -> ArgumentError:
        known = [*self.constants, *self.arrays]
        if name in RESERVED:
            *most, last = RESERVED[name]
            listed = f"{', '.join(most)} and {last}" if most else last
            return ArgumentError(f"{name} is no argument of what was called",
                                 why=f"It is an argument of {listed}.")
        if name in _ELSEWHERE:
            return ArgumentError(f"{self.name} has no parameter {name!r}",
                                 fix=f"Say {_ELSEWHERE[name]}=….")
        listed = f"Constants: {', '.join(self.constants) or 'none'}. It takes {self._takes()}."
        return ArgumentError(f"{self.name} has no parameter {name!r}", why=listed,
                             fix=nearest(name, [*known, *_OF_CALLS]))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def refuse_inside(name: str, **asked: bool) -> None:
    """Of a pipeline called in the text of another. Raises TraceError for what is asked there."""
    for option in (n for n, is_so in asked.items() if is_so):
        raise TraceError(f"{name} was called with {option} inside a pipeline",
                         fix="There it works on the row that is being traced.")


def check_flag(name: str, value: Any) -> bool:
    """An argument that is True or False, NumPy's too, and nothing else. Raises ArgumentError."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} must be True or False, got {value!r:.60}")
    return bool(value)


def check_whole(name: str, value: int | None, least: int = 1) -> int | None:
    """A whole number, or None for one that is left open. Raises ArgumentError."""
    if value is None:
        return None
    found = None if isinstance(value, bool | np.bool_) else as_index(value)
    if found is None or found < least:
        raise ArgumentError(f"{name} must be a whole number ≥ {least}, got {value!r:.60}",
                            fix=f"Give a whole number of {least} or more: {name}={least}.")
    return found


def check_count(name: str, value: int | None, least: int = 1) -> int | None:
    """A number of rows or columns, which kernels count in 64 bits. Raises ArgumentError."""
    found = check_whole(name, value, least)
    if found is not None and not is_whole(found):
        raise ArgumentError(f"{name}={found} is more than there can be",
                            why="Kernels count in 64 bits.")
    return found


def check_path(name: str, value: Any) -> Path:
    """Where a file or a folder is. Raises ArgumentError."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise ArgumentError(f"{name} must be a path, got {value!r:.60}",
                            fix="Write it as a string, or as a pathlib.Path.")
    return Path(found)


def check_names(name: str, value: Any) -> tuple[str, ...]:
    """Several names. Raises ArgumentError for anything else, one string among it."""
    found = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if found is None or not all(isinstance(n, str) for n in found):
        raise ArgumentError(f"{name} must be names, got {value!r:.60}",
                            fix=f"Write {name}=({value!r},)." if isinstance(value, str)
                            else "Write a tuple of strings.")
    return found


def constants_key(constants: Mapping[str, Any]) -> tuple[Any, ...]:
    """A hashable key that tells 1 from True and from 1.0."""
    return tuple((n, constant_key(v)) for n, v in constants.items())


def signature_of(fn: Callable[..., Any]) -> Signature:
    """Read a function's parameters. Raises TraceError for forms a pipeline cannot have."""
    arrays: list[str] = []
    optional: set[str] = set()
    constants: dict[str, Any] = {}
    said: dict[str, frozenset[str]] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        _check_parameter(fn, parameter)
        if parameter.kind is parameter.KEYWORD_ONLY:
            constants[name] = constant(parameter.default)
            said[name] = constant_of(fn, name, parameter.annotation)
            continue
        arrays.append(name)
        if parameter.default is None:
            optional.add(name)
    if not arrays:
        raise TraceError("a pipeline needs at least one array", where=def_loc(fn),
                         fix="Give it a positional parameter.")
    return Signature(
        fn.__name__, tuple(arrays), frozenset(optional), constants,
        frozenset(n for n, words in said.items() if "constant" in words),
        {n: parameter_loc(fn, n) for n, words in said.items() if "positive" in words})


def _check_parameter(fn: Callable[..., Any], parameter: inspect.Parameter) -> None:
    name, default = parameter.name, parameter.default
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TraceError(f"*{name}: a pipeline names each of its parameters",
                         where=parameter_loc(fn, name))
    if name in RESERVED:
        raise TraceError(f"a parameter cannot be called {name}", where=parameter_loc(fn, name),
                         why=f"Calls use these names: {', '.join(sorted(RESERVED))}.")
    if parameter.kind is parameter.KEYWORD_ONLY:
        return
    axis_of(fn, name, parameter.annotation)
    if default is not None and default is not parameter.empty:
        raise TraceError(f"array {name} has the default {default!r}", where=parameter_loc(fn, name),
                         why="A positional parameter is an array; None makes it optional.",
                         fix=f"For a constant write it after a star: *, {name}={default!r}.")
