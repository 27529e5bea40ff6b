"""How C++ spells expressions, one value at a time or a vector of lanes at a time.

In lane text `V` is the type of a float value: a vector, or the plain type at the end of a row. Row
values stay scalars; operators spread them over the lanes, functions are given `fg::all<V>(…)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.backend.cpu.emit.divisors import divisor_of
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.printer import both_whole, show
from fusegen.ir.dtypes import DType, Kind
from fusegen.ir.expr import Call, Expr, Lit, Var, variables
from fusegen.ir.kernel import FIRST_COLUMN, N_COLS
from fusegen.ir.literals import rounded, spelled
from fusegen.ir.ops import OPS

C_TYPES = {
    "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "bool": "uint8_t",
}
"""Element types as they lie in memory; 16-bit floats as their bits."""

ROW, KNOWN = "row", "known"
"""Names of the two structs that functions are given: facts of the row, values of earlier sweeps."""

INLINE = ("exp", "log")
"""Functions of C that rows have their own of: what vectors hold need not survive a call."""

_OF_ROW = frozenset([N_COLS.name, FIRST_COLUMN.name])
"""Numbers that are members of the row."""


def _of_lanes(kind: Kind) -> str:
    """The type of as many values of a kind as V has lanes."""
    return "V" if kind == "float" else f"{fg('whole' if kind == 'int' else 'mask')}<V>"



@dataclass(frozen=True)
class CpuDialect:
    """C++ text for one compute type; `lanes` chooses between element text and row text."""

    compute: DType
    lanes: bool
    leaders: frozenset[str] = frozenset()  # components that are (value, column) pairs
    below: frozenset[str] = frozenset()  # names of values that are never above 0
    partly: bool = False  # may only the first lanes be `live`?
    exact: bool = False  # are quotients rounded once? Not by inverses, which may be off by a digit
    divisors: frozenset[str] = frozenset()  # row values that have a fg::divisor

    @property
    def real(self) -> str:
        return C_TYPES[self.compute.name]

    @property
    def narrow(self) -> bool:
        """Are floats narrower than integers? Then so are their masks."""
        return self.compute.itemsize == 4

    def type_of(self, kind: Kind) -> str:
        """Type of a row value."""
        return {"float": self.real, "int": "int64_t", "bool": "bool"}[kind]

    def type_in(self, kind: Kind) -> str:
        """Type of a value in this dialect's scope."""
        return _of_lanes(kind) if self.lanes else self.type_of(kind)

    def text(self, expr: Expr) -> str:
        """The expression as a full right-hand side."""
        shown = show(expr, self)
        if isinstance(expr, Call) and expr.op == "where" and shown.startswith("("):
            shown = shown[1:-1]
        return self._spread(expr, shown) if self.lanes and not expr.varying else shown

    def number(self, value: float) -> str:
        value = rounded(value, single=self.narrow)
        if math.isnan(value):
            return fg("nan")
        if math.isinf(value):
            return fg("infinity") if value > 0 else f"-{fg('infinity')}"
        return spelled(value, single=self.narrow) + ("f" if self.narrow else "")

    def line(self, text: str, *exprs: Expr, uses: Iterable[str] = (), declares: str = "",
             note: str = "") -> Line:
        """A line whose text spells these expressions; the length of a row is one of its facts."""
        names = {n for e in exprs for n in variables(e)} | set(uses)
        row = {ROW} if names & _OF_ROW else set()
        return Line(text, frozenset(names | row), declares, note)

    def let(self, name: str, expr: Expr, note: str = "") -> Line:
        """The declaration of a value."""
        text = f"const {self.type_in(expr.kind)} {name} = {self.text(expr)};"
        return self.line(text, expr, declares=name, note=note)

    # ---- what the printer asks ----

    def literal(self, lit: Lit) -> str:
        if lit.kind == "float":
            return self.number(float(lit.value))
        if lit.kind == "bool":
            return "true" if lit.value else "false"
        if lit.value == -(2**63):
            return "INT64_MIN"  # which has no literal
        return f"INT64_C({lit.value:d})" if abs(lit.value) >= 2**31 else f"{lit.value:d}"

    def name(self, var: Var) -> str:
        if var.name in _OF_ROW:
            return f"row.{var.name}"
        holder, _, component = var.name.partition(".")
        if component in self.leaders:
            return f"{holder}.{component}.column"
        leader = component.removesuffix("_value")
        return f"{holder}.{leader}.value" if leader in self.leaders else var.name

    def argument(self, expr: Expr, shown: str, call: Call) -> str:
        if self.lanes and call.varying:
            return shown if expr.varying else self._spread(expr, shown)
        is_number = isinstance(expr, Lit) and expr.kind == "int"
        return f"int64_t({shown})" if is_number and OPS[call.op].spelling == "helper" else shown

    def function(self, call: Call, args: list[str]) -> str | None:
        if self.lanes and call.varying:
            return self._lane_function(call, args)
        return self._scalar_function(call, args)

    # ---- spelling ----

    def _spread(self, expr: Expr, shown: str) -> str:
        spread = "all_if" if expr.kind == "bool" else "all"
        return f"{fg(spread)}<{_of_lanes(expr.kind)}>({shown})"

    def _scalar_function(self, call: Call, args: list[str]) -> str | None:
        op = OPS[call.op]
        match call.op:
            case "where":
                first = f"int64_t({args[1]})" if both_whole(call) else args[1]
                return f"({args[0]} ? {first} : {args[2]})"
            case "isnan" | "isinf" | "isfinite":
                return f"std::{call.op}({args[0]})"
            case "to_float":
                return f"{self.real}({args[0]})"
            case "to_int" if call.args[0].kind == "bool":
                return f"int64_t({args[0]})"
            case "to_bool":
                return f"({args[0]} != 0)"
            case _ if call.op in INLINE:
                return f"{fg(op.c)}({', '.join(args)})"
            case _ if op.spelling == "libm":
                return f"std::{op.c}({', '.join(args)})"
            case _ if op.spelling == "helper":
                return f"{fg(op.c)}({', '.join(args)})"
            case _:
                return None

    def _lane_function(self, call: Call, args: list[str]) -> str | None:
        op = OPS[call.op]
        source = call.args[0].kind
        match call.op:
            case "exp" if isinstance(arg := call.args[0], Var) and arg.name in self.below:
                return f"{fg('exp_below')}({args[0]})"
            case "div" if not (call.args[1].varying or self.exact):
                by = show(call.args[1], self)
                divisor = divisor_of(by) if by in self.divisors else by
                return f"{fg('quotient')}({args[0]}, {divisor})"
            case "to_float":
                return f"{fg('one_where' if source == 'bool' else 'convert')}<V>({args[0]})"
            case "to_int" if source == "bool":
                return f"{fg('one_where')}<{fg('whole')}<V>>({args[0]})"
            case "to_bool":
                return self._narrowed(source, f"{args[0]} != 0")
            case "where" if source != "bool":  # what sums are multiplied by says so, too
                args[0] = self._narrowed(source, f"{args[0]} != 0")
                return f"{fg(op.c)}({', '.join(args)})"
            case "not":
                return f"{fg('inverse')}({args[0]})"
            case "and" | "or" if not all(a.varying for a in call.args):
                return f"({args[0]} {op.c} {args[1]})"
            case _ if op.rule == "bool" and op.spelling == "infix" and source == "int":
                return self._narrowed(source, f"{args[0]} {op.c} {args[1]}")
            case _ if op.spelling in ("libm", "helper"):
                return f"{fg(op.c)}({', '.join(args)})"
            case _:
                return None

    def _narrowed(self, kind: Kind, comparison: str) -> str:
        """A comparison of 64-bit integers as a mask of the floats' width."""
        wide = kind == "int" and self.narrow
        return f"{fg('narrow')}<V>({comparison})" if wide else f"({comparison})"
