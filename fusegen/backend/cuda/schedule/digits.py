"""How many digits results need: fewer of functions and quotients where all that is written has 16
bits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from fusegen.backend.emit.terms import below_pivots, replaced, term_of
from fusegen.ir.dtypes import DType
from fusegen.ir.expr import ONE, Call, Expr, Lit, Var, variables, walk
from fusegen.ir.kernel import Kernel, Let, Param, Program, Shape, Sweep
from fusegen.ir.kernel_walk import expressions_in


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


def rough_quotients(kernels: Sequence[Kernel], *, narrow: bool) -> frozenset[Expr]:
    """Quotients of elements by row values and numbers that may be off by a rounding or two, of
    kernels of a narrow program: logits, of which nothing is asked but exponentials about their
    greatest. Whatever else is made of a quotient may show its last digit: a condition, a
    column, a whole number, a difference. None of other programs."""
    if not narrow:
        return frozenset()
    logits = frozenset(q for k in kernels for sweep in k.sweeps for q in _logits(sweep))
    return logits.difference(*(_met_otherwise(k, logits) for k in kernels))


def _logits(sweep: Sweep) -> Iterator[Expr]:
    """Quotients whose exponentials about their greatest a sweep sums."""
    lets = {let.name: let.expr for let in sweep.lets}
    below = below_pivots(sweep.monoid)
    for r in sweep.monoid.relatives:
        made = lets.get(r.atom.name) if isinstance(r.atom, Var) else r.atom
        match made:
            case Call(op="div", args=(a, (Var(varying=False) | Lit()))) if a.varying:
                if r.name in below:
                    yield made


def _met_otherwise(kernel: Kernel, logits: frozenset[Expr]) -> frozenset[Expr]:
    """Those of them of which anything else is asked; all, if anything is of their greatest."""
    known, members = _greatest(kernel)
    met: set[Expr] = set()
    for sweep in kernel.sweeps:
        names = {let.name: let.expr for let in sweep.lets if let.expr in logits}
        exprs = [_without_terms(e, known) for e in _of_elements(sweep, {*names})]
        if any(known & {*variables(e)} for e in exprs) or any(
                (known | members) & {*variables(e)} for e in _of_rows(sweep, known, members)):
            return logits
        parts = [part for e in exprs for part in walk(e)]
        met |= {names[p.name] for p in parts if isinstance(p, Var) and p.name in names}
        met |= logits & {*parts}
    return frozenset(met)


def _of_elements(sweep: Sweep, logits: Collection[str]) -> Iterator[Expr]:
    """What a sweep makes of elements, but for logits themselves, their greatest, and what lies
    below that as long as only its exponentials are used."""
    monoid = sweep.monoid
    below = below_pivots(monoid)
    atoms = {r.atom for r in monoid.relatives if r.name in below}
    yield from (let.expr for let in sweep.lets if let.name not in logits)
    yield from (f.lift for f in monoid.folded if f.fold != "max" or f.lift not in atoms)
    yield from (b.lift for b in monoid.best)
    yield from (top.lift for top in monoid.lists)
    yield from (lift for own in monoid.own for lift in own.lifts)
    terms: dict[Expr, Expr] = {term_of(name): ONE for name in below}
    lifts = [replaced(m.lift, terms) for m in monoid.moving]
    used = {n for e in lifts for n in variables(e)}
    yield from lifts
    yield from (r.atom for r in monoid.relatives if r.name not in below or r.name in used)
    yield from (store.value for store in sweep.element_stores)


def _without_terms(expr: Expr, known: Collection[str]) -> Expr:
    """An expression without exponentials about the greatest."""
    match expr:
        case Call(op="exp", args=(Call(op="sub", args=(_, Var(name=name))),)) if name in known:
            return ONE
        case Call(op=op, args=args):
            return Call(op, tuple(_without_terms(a, known) for a in args))
        case _:
            return expr


def _greatest(kernel: Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Row values that are the pivots of such exponentials, and the members of states they are."""
    known, members = set[str](), set[str]()
    for sweep in kernel.sweeps:
        below = below_pivots(sweep.monoid)
        pivots = {sweep.monoid.pivot(r.pivot).value for r in sweep.monoid.relatives
                  if r.name in below}
        members |= {f"state.{p.name}" for p in pivots if isinstance(p, Var)}
        known |= {s.name for s in sweep.steps
                  if isinstance(s, Let) and isinstance(s.expr, Var) and s.expr.name in members}
    return frozenset(known), frozenset(members)


def _of_rows(
    sweep: Sweep, known: Collection[str], members: Collection[str]
) -> Iterator[Expr]:
    """What is computed of a row, without asking whether the greatest is finite."""
    finite: dict[Expr, Expr] = {
        Call("isfinite", (Var(n, "float"),)): Lit(True, "bool") for n in (*known, *members)}
    own = [s for s in sweep.steps if not isinstance(s, Let) or s.name not in known]
    for part in (*own, *sweep.row_stores, *sweep.list_stores):
        for e in expressions_in(part):
            yield replaced(e, finite)
