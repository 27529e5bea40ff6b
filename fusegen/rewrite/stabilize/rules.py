"""Rewriting a text that overflows or cancels into one that does not: shift equivariance.

Every value is kept as core · exp(Σ c·n): the exponential itself is not formed yet. A sum
over the row gives up its pivot, the greatest exponent, so that its core is a sum of numbers ≤ 1:

    Σ h·exp(x) = exp(m) · Σ h·exp(x − m),    m = max(x).

Products add exponents, quotients subtract them, a logarithm turns them into plain numbers. Where
a value is needed as it is and its exponents have cancelled (or cannot be positive), the safe text
is printed; where they have not, the text stays as written. Raw moments and norms are rules of
their own, each of one node. Nothing here is trusted: `algebra.equality` proves the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.ir.loc import Loc
from fusegen.lang.value import builder
from fusegen.rewrite.build import (
    call_it,
    fold,
    is_one,
    literal,
    name_of,
    op,
    over,
    rebuilt,
    times,
)
from fusegen.rewrite.exponent import (
    Exponent,
    Scaled,
    constant,
    gathered,
    greatest,
    is_bounded,
    linear,
    parts,
    plus,
    scaled,
    spelled,
)
from fusegen.rewrite.stabilize.findings import Finding, Hazard
from fusegen.rewrite.stabilize.logarithms import Logarithms
from fusegen.rewrite.stabilize.moments import centred
from fusegen.rewrite.stabilize.norms import scaled_norm

_KEEPS_SCALE = frozenset(
    ("add", "sub", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne")
)
_TESTS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


class Rewriter:
    """One text's rewriting, inside the trace that made its nodes."""

    def __init__(self) -> None:
        self.findings: dict[g.Node, Finding] = {}
        self._known: dict[g.Node, Scaled] = {}
        self._plain: dict[g.Node, g.Node] = {}
        self._logs = Logarithms()

    def run(self, outputs: Sequence[g.Node]) -> tuple[g.Node, ...]:
        """The outputs, each rewritten as far as that makes it safe."""
        for node in g.topological(tuple(outputs)):
            found = self._value(node)
            self._known[node] = found
            self._pass_name(node, found)
        return tuple(self._as_number(o) for o in outputs)

    def _pass_name(self, node: g.Node, found: Scaled) -> None:
        """The user's name goes to what stands for the node."""
        if found.core is node or (found.log and not isinstance(found.core, g.Reduce)):
            return
        name = builder().labels.get(node)
        if name is not None:
            call_it(found.core, name)
        if node in builder().returned:
            builder().returned.add(found.core)

    def mended(self, used: set[g.Node]) -> frozenset[Finding]:
        """Findings whose safe sum stands in the new text."""
        return frozenset(f for f in self.findings.values() if f.safe in used)

    def left(self, used: set[g.Node]) -> frozenset[Finding]:
        """Overflows that the new text still has: nothing holds their exponential down."""
        return frozenset(
            f for f in self.findings.values()
            if f.bare and f.hazard is Hazard.OVERFLOW
            and {f.node, self._plain.get(f.node)} & used
        )

    # ---- a value as a number ----

    def _as_number(self, node: g.Node) -> g.Node:
        """The node without a pending exponential."""
        if node not in self._plain:
            found = self._known[node]
            if not found.log:
                made = found.core
            elif is_bounded(found.log):
                made = times(found.core, _weight(found.log, node.loc), node.loc)
            else:
                made = self._as_written(node)
            self._plain[node] = made
        return self._plain[node]

    def _as_written(self, node: g.Node) -> g.Node:
        return rebuilt(node, self._as_number)

    # ---- rules ----

    def _value(self, node: g.Node) -> Scaled:
        found: Scaled | None = None
        match node:
            case g.Map(op="exp"):
                found = self._exp(node)
            case g.Map(args=args):
                inner = [self._known[a] for a in args]
                found = self._map(node, inner) if any(s.log for s in inner) else self._local(node)
            case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN):
                found = self._sum(node)
            case g.Take():
                found = self._take(node)
        if found is None or not _is_extent_of(found, node):
            return Scaled(self._as_written(node))
        return found

    def _exp(self, node: g.Map) -> Scaled | None:
        exponent = linear(self._as_number(node.args[0]))
        if is_bounded(exponent):
            return None
        return Scaled(literal(1.0, node.loc), exponent)

    def _local(self, node: g.Map) -> Scaled | None:
        """Raw moments and norms: recognised on plain nodes."""
        written = self._as_written(node)
        if not isinstance(written, g.Map):
            return None
        paired = self._logs.paired(written)
        if paired is not None or g.extent(written) is not g.Extent.ROW:
            return paired
        difference = written.op in ("add", "sub")
        found = centred(written) if difference else scaled_norm(written)
        if found is None:
            return None
        hazard = Hazard.CANCELLATION if difference else Hazard.SCALE
        self.findings[node] = Finding(hazard, node, found[1], True)
        return Scaled(found[0])

    def _map(self, node: g.Map, inner: list[Scaled]) -> Scaled | None:
        a, b = inner[0], inner[-1]
        match node.op:
            case "mul":
                return Scaled(times(a.core, b.core, node.loc), plus(a.log, b.log))
            case "div":
                return Scaled(over(a.core, b.core, node.loc), plus(a.log, b.log, -1))
            case "neg" | "abs":
                return Scaled(op(node.op, node.loc, a.core), a.log)
            case name if name in _KEEPS_SCALE and a.log == b.log:
                return Scaled(op(name, node.loc, a.core, b.core), {} if name in _TESTS else a.log)
            case "sqrt" | "rsqrt" | "square" | "pow":
                return self._power(node, a)
            case "log" | "log2":
                return Scaled(self._logs.of(node, a))
            case "xlogy" if b.log:
                return Scaled(op("zero_wins", node.loc, self._as_number(node.args[0]),
                                 self._logs.of(node, b)))
            case "where":
                return self._where(node, inner[1], inner[2])
            case _:
                return None

    def _power(self, node: g.Map, base: Scaled) -> Scaled | None:
        match node:
            case g.Map(op="pow", args=(_, power)):
                p = constant(power)
                if p is None:
                    return None
                core = base.core if is_one(base.core) else op("pow", node.loc, base.core, power)
                return Scaled(core, scaled(base.log, p))
            case _:
                p = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2)}.get(node.op, Fraction(2))
                core = base.core if is_one(base.core) else op(node.op, node.loc, base.core)
                return Scaled(core, scaled(base.log, p))

    def _where(self, node: g.Map, a: Scaled, b: Scaled) -> Scaled | None:
        """Both branches of one scale; or 0 in one of them, which has weight exp(−∞)."""
        condition, loc = self._as_number(node.args[0]), node.loc
        if a.log == b.log:
            return Scaled(op("where", loc, condition, a.core, b.core), a.log)
        first = constant(b.core) == 0 and not b.log
        if not first and not (constant(a.core) == 0 and not a.log):
            return None
        kept = a if first else b
        varying, rows = parts(kept.log)
        if not varying:
            return None
        ((element, c),) = gathered(varying, loc).items()
        nothing = literal(float("-inf") if c > 0 else float("inf"), loc)
        masked = (element, nothing) if first else (nothing, element)
        exponent = plus(rows, {op("where", loc, condition, *masked): c})
        if is_one(kept.core):
            return Scaled(kept.core, exponent)
        zero = literal(0.0, loc)
        cores = (kept.core, zero) if first else (zero, kept.core)
        return Scaled(op("where", loc, condition, *cores), exponent)

    def _sum(self, node: g.Reduce) -> Scaled | None:
        inside = self._known[node.arg]
        varying, rows = parts(inside.log)
        if not varying:
            return Scaled(fold(node.fold, inside.core, node.loc), rows) if rows else None
        if is_bounded(inside.log):
            return None
        pivot = greatest(varying, node.loc)
        self._name_pivot(pivot)
        weight = _weight(plus(varying, pivot, -1), node.loc)
        safe = fold(node.fold, times(inside.core, weight, node.loc), node.loc)
        self.findings[node] = Finding(Hazard.OVERFLOW, node, safe, not rows)
        return Scaled(safe, plus(rows, pivot))

    def _name_pivot(self, pivot: Exponent) -> None:
        (node,) = pivot
        assert isinstance(node, g.Reduce)
        name = name_of(node.arg)
        call_it(node, f"{name}_{node.fold.value}" if name else node.fold.value)

    def _take(self, node: g.Take) -> Scaled | None:
        """(core · exp(e)) at a column = core there · exp(e there)."""
        inside, at = self._known[node.arg], self._as_number(node.index)
        varying, rows = parts(inside.log)
        if not varying:
            return None

        def taken(element: g.Node) -> g.Node:
            return builder().add(g.Take(element, at, node.loc)).node

        core = inside.core
        there = taken(core) if g.extent(core) is g.Extent.ELEMENT else core
        return Scaled(there, plus(rows, {taken(e): c for e, c in varying.items()}))


def _weight(log: Exponent, loc: Loc) -> g.Node:
    return op("exp", loc, spelled(gathered(log, loc), loc))


def _is_extent_of(found: Scaled, node: g.Node) -> bool:
    """exp(x)·exp(−x) is one number per element still, though x is gone."""
    return g.extent(node) in {g.extent(found.core), *map(g.extent, found.log)}
