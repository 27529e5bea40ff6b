"""How CUDA C++ spells types, constants and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.printer import TIGHTEST, both_whole, show
from fusegen.ir.dtypes import DType, Kind
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.literals import rounded, spelled
from fusegen.ir.ops import OPS

_Made = TypeVar("_Made")

C_TYPES = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "bool": "bool",
}

PAIR_TYPES = {"float16": "__half2", "bfloat16": "__nv_bfloat162"}
"""Two of a type in a register."""

HELPER_OPS = frozenset(
    {"sign", "maximum", "minimum", "sigmoid", "xlogy", "zero_wins", "zeros_win", "square", "to_int",
     "mirror"}
)
"""Operations that are C++ functions of the generated file; the rest are built in."""


class CudaDialect:
    """Spelling for one compute type; records which helper functions the text calls."""

    def __init__(
        self, compute: DType, *, narrow: bool = False, exact: bool = False, tiles: bool = False,
        rows_shared: bool = False, weighs: bool = False,
    ) -> None:
        self.real = C_TYPES[compute.name]
        self.narrow = narrow  # are all inputs and outputs of 16 bits?
        self.rows_shared = rows_shared  # do four lanes ask together what is known of a row?
        self.tiles = tiles and self.real == "float"  # are elements sums, rounded in any case?
        self.weighs = weighs  # do elements make weights alone, which are rounded to 16 bits?
        self.exact = exact  # are states read by others, who must find the same pivots?
        self.suffix = "f" if compute.itemsize == 4 else ""
        self.used: set[str] = set()
        self.state = "state"  # the variable that `state.<component>` means at present
        self.divisors: dict[str, None] | None = None  # row values divided by; None at row scope
        self.below_zero: frozenset[str] = frozenset()  # values whose exponentials are only added up
        self.roughly = False  # may quotients be off by a few roundings?
        self.counts: frozenset[str] = frozenset()  # members that are numbers of elements
        self.columns: frozenset[str] = frozenset()  # values that are as wide as column numbers
        self.nearly = False  # may quotients by a row value be off by a rounding or two?
        self.narrowed: Expr | None = None  # whose result is rounded to 16 bits, and not used else
        self.rough: frozenset[Expr] = frozenset()  # quotients that may be off likewise
        self.near: frozenset[str] = frozenset()  # row values that are between 1 and 2^64, or NaN

    @property
    def bits(self) -> dict[str, str]:
        """Values without a literal, by their bits."""
        if self.real == "float":
            return {"inf": "__int_as_float(0x7f800000)", "nan": "__int_as_float(0x7fc00000)"}
        return {
            "inf": "__longlong_as_double(0x7ff0000000000000LL)",
            "nan": "__longlong_as_double(0x7ff8000000000000LL)",
        }

    def type_of(self, kind: Kind) -> str:
        return {"float": self.real, "int": "long long", "bool": "bool"}[kind]

    def type_of_value(self, name: str, kind: Kind) -> str:
        return "column_t" if name in self.columns else self.type_of(kind)

    def text(self, expr: Expr) -> str:
        shown = show(expr, self)
        return shown[1:-1] if isinstance(expr, Call) and expr.op == "where" else shown

    def operand(self, expr: Expr) -> str:
        """The expression beside an operator: a right-hand side alone has no brackets."""
        return show(expr, self, TIGHTEST)

    def uses(self, expr: Expr) -> frozenset[str]:
        """Names in the text of an expression: where it divides by a row value in an element's
        scope, the divisor stands for the value."""
        match expr:
            case Var(name=name):
                return frozenset([name])
            case Call(op="div", args=(value, Var() as by)) if self._by_divisor(expr):
                return self.uses(value) | {divisor_name(self.name(by))}
            case Call(args=args):
                return frozenset[str]().union(*map(self.uses, args))
            case _:
                return frozenset()

    def line(self, text: str, *exprs: Expr, declares: str = "", note: str = "") -> Line:
        """A line whose text spells these expressions."""
        uses = frozenset[str]().union(*map(self.uses, exprs))
        return Line(text, uses, declares, note)

    def let(self, name: str, expr: Expr, note: str = "") -> Line:
        """The declaration of a value."""
        text = f"const {self.type_of_value(name, expr.kind)} {name} = {self.text(expr)};"
        return self.line(text, expr, declares=name, note=note)

    def use(self, helper: str) -> str:
        self.used.add(helper)
        return helper

    def literal(self, lit: Lit) -> str:
        if lit.kind == "bool":
            return "true" if lit.value else "false"
        if lit.kind == "int":
            if lit.value == -(2**63):
                return "(-9223372036854775807LL - 1)"  # which has no literal
            return f"{lit.value:d}{'LL' if abs(lit.value) >= 2**31 else ''}"
        return self.number(float(lit.value))

    def number(self, value: float) -> str:
        value = rounded(value, single=bool(self.suffix))
        if math.isnan(value):
            return self.use("kNaN")
        if math.isinf(value):
            return self.use("kInfinity") if value > 0 else f"-{self.use('kInfinity')}"
        return spelled(value, single=bool(self.suffix)) + self.suffix

    def name(self, var: Var) -> str:
        return f"{self.state}.{var.name[6:]}" if var.name.startswith("state.") else var.name

    def argument(self, expr: Expr, shown: str, call: Call) -> str:
        whole = isinstance(expr, Lit) and expr.kind == "int" and call.op in HELPER_OPS
        spelled_so = shown.endswith(("LL", ")"))
        return f"{shown}LL" if whole and not spelled_so else shown  # helpers take one type

    def function(self, call: Call, args: list[str]) -> str | None:
        op = OPS[call.op]
        match call.op:
            case "rounded_mul":
                return f"__{'f' if self.real == 'float' else 'd'}mul_rn({', '.join(args)})"
            case "div":
                return self._quotient(call, args)
            case "zero_wins" if call.args[0] == Call("exp", (call.args[1],)):
                digits = "term" if self._is_term(call.args[1]) else "narrow"
                times = f"exp_times_{digits}" if self.narrow else "exp_times"
                return f"{self.use(times)}({args[1]})"
            case "exp" | "exp2" | "tanh" if (quick := self._quick(call)):
                return f"{self.use(quick)}({args[0]})"
            case "where":
                wide = "LL" if both_whole(call) and not args[1].endswith(("LL", ")")) else ""
                return f"({self._bracket(call.args[0], args[0])} ? {args[1]}{wide} : {args[2]})"
            case "abs":
                return f"{'llabs' if call.kind == 'int' else 'fabs' + self.suffix}({args[0]})"
            case "rsqrt":
                return f"rsqrt{self.suffix}({args[0]})"
            case "isnan" | "isinf" | "isfinite":
                return f"{call.op}({args[0]})"
            case "to_float":
                return f"static_cast<{self.real}>({args[0]})"
            case "to_int" if call.args[0].kind != "float":
                return f"static_cast<long long>({args[0]})"
            case "to_bool":
                return f"({args[0]} != 0)"
            case _ if call.op in HELPER_OPS:
                return f"{self.use(op.c)}({', '.join(args)})"
            case _ if op.spelling == "libm":
                return f"{op.c}{self.suffix}({', '.join(args)})"
            case _:
                return None

    def divided(self, make: Callable[[], _Made]) -> tuple[_Made, tuple[Line, ...]]:
        """What is made, and declarations of the row values that it divides by."""
        self.divisors = {}
        made = make()
        values, self.divisors = self.divisors, None
        return made, tuple(divisor(v, near=v in self.near) for v in values)

    @contextmanager
    def terms(self, powers: Iterable[str]) -> Iterator[None]:
        """Meanwhile e and 2 to these powers, none of which is above 0, are only added up."""
        self.below_zero = frozenset(powers)
        yield
        self.below_zero = frozenset()

    def _is_term(self, power: Expr) -> bool:
        """Is e to this power one of many terms, none of which is above 1?"""
        return isinstance(power, Var) and power.name in self.below_zero and self.real == "float"

    def _quick(self, call: Call) -> str:
        """The function that has enough digits, where the language's own has more; or ""."""
        op, weight = call.op, self.weighs and call.varying
        if op != "exp" and not (self.tiles and call.varying):
            return ""
        if op != "tanh" and (weight or self._is_term(call.args[0])):
            return f"{op}_term"
        enough = self.narrow or op == "exp2" or (op == "tanh" and weight)
        return f"{op}_narrow" if enough else ""

    def _is_rough(self, call: Call) -> bool:
        return self.roughly and not self.exact and self.real == "float" and call.kind == "float"

    def _quotient(self, call: Call, args: list[str]) -> str | None:
        """None: as the language divides."""
        nearly = call is self.narrowed or call in self.rough
        if self._by_divisor(call):
            return self._divided(args, nearly=self.nearly or nearly)
        if self._is_rough(call):
            quick = self.use("over_count") if args[1] in self.counts else "__fdividef"
            return f"{quick}({', '.join(args)})"
        if self._by_number(call):
            self.use("divisor")
            return f"Divisor({args[1]}).{'nearly' if nearly else 'under'}({args[0]})"
        return None

    def _by_divisor(self, call: Call) -> bool:
        by = call.args[1]
        same = isinstance(by, Var) and not by.varying and by.kind == "float"
        rough = self._is_rough(call)
        return same and self.divisors is not None and self.real == "float" and not rough

    def _by_number(self, call: Call) -> bool:
        """Is an element divided by a number of the text? Compilers know its inverse, then. Halves
        and their like they multiply by themselves."""
        match call.args:
            case (dividend, Lit(value=by, kind="float")) if dividend.varying and math.isfinite(by):
                return self.real == "float" and abs(math.frexp(by)[0]) not in (0.0, 0.5)
        return False

    def _divided(self, args: list[str], *, nearly: bool) -> str:
        assert self.divisors is not None
        self.use("divisor")
        self.divisors[args[1]] = None
        return f"{divisor_name(args[1])}.{'nearly' if nearly else 'under'}({args[0]})"

    @staticmethod
    def _bracket(condition: Expr, shown: str) -> str:
        infix = isinstance(condition, Call) and OPS[condition.op].spelling == "infix"
        return f"({shown})" if infix else shown

    # ---- memory ----

    def load(self, raw: str, dtype: DType) -> str:
        """A stored element as the type kernels compute in."""
        if dtype.name == "float16":
            wide = f"__half2float({raw})"
        elif dtype.name == "bfloat16":
            wide = f"__bfloat162float({raw})"
        elif dtype.kind == "float":
            wide = raw
        else:
            whole = dtype.kind == "bool" or dtype.name == "int64"
            return raw if whole else f"static_cast<long long>({raw})"
        held = "double" if dtype.itemsize == 8 else "float"
        return wide if held == self.real else f"static_cast<{self.real}>({wide})"

    def item(self, items: str, dtype: DType, width: int) -> str:
        """Item i of a chunk likewise, in vectors of so many."""
        if dtype.name == "bfloat16" and width % 2 == 0 and self.real == "float":
            return f"{items}.widened(i)"
        return self.load(f"{items}[i]", dtype)

    def stored(self, expr: Expr, dtype: DType) -> str:
        """A computed value as an element to store: rounded to nearest, integers clamped."""
        match expr:
            case Call(op="to_int", args=(real,)) if real.kind == "float" and dtype.name in _LIMITS:
                # Clamped before it is whole: no 64 bits are needed.
                return self._clamped(self.use("clamped_real"), self.text(real), dtype)
        value = self.text(expr)
        if dtype.kind == "float":
            if dtype.name in ("float16", "bfloat16"):
                single = value if self.real == "float" else f"static_cast<float>({value})"
                return f"__float2{'half' if dtype.name == 'float16' else 'bfloat16'}_rn({single})"
            wide = {"float32": "float", "float64": "double"}[dtype.name]
            return value if wide == self.real else f"static_cast<{wide}>({value})"
        if dtype.kind == "int" and dtype.name != "int64":
            return self._clamped(self.use("clamped"), value, dtype)
        return value

    @staticmethod
    def _clamped(function: str, value: str, dtype: DType) -> str:
        return f"{function}<{C_TYPES[dtype.name]}>({value}, {_LIMITS[dtype.name]})"


def divisor(value: str, *, near: bool = False) -> Line:
    """The declaration of a row value that is divided by many times."""
    name, kind = divisor_name(value), "NearDivisor" if near else "Divisor"
    return Line(f"const {kind} {name}({value});", frozenset([value]), declares=name)


def divisor_name(value: str) -> str:
    return f"{value.replace('.', '_')}_divisor"


_LIMITS = {
    "int8": "-128, 127", "int16": "-32768, 32767", "int32": "-2147483648LL, 2147483647LL",
    "uint8": "0, 255", "uint16": "0, 65535", "uint32": "0, 4294967295LL",
}
