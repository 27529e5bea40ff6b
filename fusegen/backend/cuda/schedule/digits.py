"""How many digits results need: fewer of functions and quotients where all that is written has 16
bits."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusegen.ir.dtypes import DType
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.kernel import Kernel, Param, Program, Shape, Sweep

_SMOOTH = frozenset(
    {"add", "sub", "mul", "rounded_mul", "square", "neg", "div", "exp", "exp2", "tanh", "sigmoid"}
)
"""What a last digit of 24 passes through as one: no order, no condition, no whole number."""


def is_narrow(program: Program, beside: Collection[Shape] = ("row", "per_column")) -> bool:
    """Have all elements and results 16 bits? Functions need no more digits then. beside: shapes of
    inputs that may have more."""
    return _are_narrow((*program.inputs, *program.outputs), program.kernels[0].compute, beside)


def is_narrow_by_itself(kernel: Kernel) -> bool:
    """Likewise of one of a program's kernels."""
    return _are_narrow(kernel.params, kernel.compute, ("row", "per_column"))


def _are_narrow(params: Iterable[Param], compute: DType, beside: Collection[Shape]) -> bool:
    floats = [p.dtype.number for p in params if p.dtype.kind == "float" and p.shape != "scalar"
              and (p.output or p.shape not in beside)]
    return compute.itemsize == 4 and all(d.itemsize == 2 for d in floats)


def rough_quotients(kernels: Iterable[Kernel]) -> frozenset[Expr]:
    """Quotients of elements by row values and numbers that may be off by a rounding or two, of
    kernels of a narrow program: those that are only added up, multiplied, compared with others of
    theirs for the greatest, or made exponentials of."""
    uses = _Uses()
    for kernel in kernels:
        uses.meet(kernel)
    return frozenset(e for e, smooth in uses.found.items() if smooth)


class _Uses:
    """Are the quotients of a program used smoothly, all of them?"""

    def __init__(self) -> None:
        self.found: dict[Expr, bool] = {}

    def meet(self, kernel: Kernel) -> None:
        for sweep in kernel.sweeps:
            lets = {let.name: let.expr for let in sweep.lets}
            done: set[tuple[Expr, bool]] = set()
            for root, smooth in _roots(sweep):
                self._visit(root, smooth, lets, done)

    def _visit(
        self, expr: Expr, smooth: bool, lets: dict[str, Expr], done: set[tuple[Expr, bool]]
    ) -> None:
        if (expr, smooth) in done:
            return
        done.add((expr, smooth))
        match expr:
            case Var(name=name) if name in lets:
                self._visit(lets[name], smooth, lets, done)
            case Call(op="div", args=(a, (Var(varying=False) | Lit()))) if a.varying:
                self.found[expr] = self.found.get(expr, True) and smooth
                self._visit(a, smooth, lets, done)
            case Call(op=op, args=args):
                for a in args:
                    self._visit(a, smooth and op in _SMOOTH, lets, done)


def _roots(sweep: Sweep) -> Iterable[tuple[Expr, bool]]:
    """What a sweep makes of elements, and whether a last digit of it is one of what becomes of
    it: not where columns are found, or elements counted that equal another."""
    monoid = sweep.monoid
    for f in monoid.folded:
        yield f.lift, f.fold != "prod"
    for m in monoid.moving:
        yield m.lift, True
    for r in monoid.relatives:
        yield r.atom, monoid.pivot(r.pivot).action != "same"
    for store in sweep.element_stores:
        yield store.value, True
    ordered = [*(b.lift for b in monoid.best), *(k.lift for k in monoid.lists)]
    for lift in (*ordered, *(lift for own in monoid.own for lift in own.lifts)):
        yield lift, False
