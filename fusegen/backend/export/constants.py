"""Constants that vary, as functions of a library take them: numbers that come with a call, what has
to hold of them, and what kernels get, in C++ that computes as Python does: in doubles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isinf, isnan

from fusegen.backend.export.spelled import c_string
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, InternalError
from fusegen.ir.varying import Formula, Guard, bounds_of

_FUNCTIONS = {"/": "quotient", "**": "power", "abs": "std::fabs"}  # of text.hpp


@dataclass(frozen=True, slots=True)
class Constant:
    """A float of the text that every call says anew."""

    name: str  # the user's
    argument: str  # of C's functions
    usual: float  # at the export


def check_of(guard: Guard, constants: tuple[Constant, ...]) -> tuple[str, str]:
    """(C++ that is true where a text with these numbers is what was exported, string literals that
    say so). Raises ArgumentError for what a double cannot say."""
    said = "".join(c_string(guard.said, 10_000))
    args = [_spelled(a, constants) for a in guard.args]
    match guard.question:
        case "magnitude":
            low, high = map(_number, bounds_of(guard.answer))
            return f"within({args[0]}, {low}, {high})", said
        case "bits":
            return f"same({args[0]}, {_number(float.fromhex(guard.answer))})", said
        case _:
            held = f"{args[0]} {guard.question} {args[1]}"
            return held if guard.answer else f"!({held})", said


def scalars_of(graph: g.Graph, constants: tuple[Constant, ...]) -> Iterator[str]:
    """C++ of each scalar of the graph, in its order."""
    return (_spelled(node.formula, constants) for node in graph.scalars)


def guards_of(graph: g.Graph, usual: Mapping[str, float]) -> tuple[Guard, ...]:
    """What has to hold of constants; one that is part of this graph's kernels has one value."""
    alone = (Guard("bits", (n,), v.hex()) for n, v in usual.items() if n not in graph.varying)
    return (*graph.guards, *alone)


def _spelled(formula: Formula, constants: tuple[Constant, ...]) -> str:
    match formula:
        case str():
            return f"c[{[c.name for c in constants].index(formula)}]"
        case ("negative", only):
            return f"-({_spelled(only, constants)})"
        case (operation, *args):
            told = [_spelled(a, constants) for a in args]
            if operation not in _FUNCTIONS:
                return f"({f' {operation} '.join(told)})"
            wrong = ["wrong"] if operation != "abs" else []
            return f"{_FUNCTIONS[operation]}({', '.join([*told, *wrong])})"
        case int() | float():
            return _number(formula)
        case _:
            raise InternalError(f"no formula: {formula!r}")


def _number(value: float) -> str:
    """A double; hexadecimal, so that it is this very number."""
    if int is type(value) and int(float(value)) != value:
        raise ArgumentError(f"a constant meets the whole number {value}",
                            why="An exported library computes constants in float64, which does "
                            "not hold it.", fix="Annotate the constant fg.Constant.")
    near = float(value)
    if isnan(near):
        return "NAN"
    return f"{'-' if near < 0 else ''}INFINITY" if isinf(near) else near.hex()
