"""Elements at a column that is known beforehand (`fg.take(x, label)`), as parts of a state.

A piece of a row need not have the column. So a state holds whether it has been seen, and what was
there: of floats the greatest of the value at that column and −∞ at all others, of integers and
conditions the sum of the value there and 0. What is computed of it is computed of the row, and is
NaN where there is no such column.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from fusegen.ir.expr import Expr, Lit, Var, call, substitute
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import COLUMN, FromMemory, Gather, Kernel, Let, Step, Sweep
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import Folded
from fusegen.ir.names import Taken


def picked(kernel: Kernel, sweep: Sweep, early: Collection[Step], taken: Taken) -> Kernel:
    """The kernel whose gathers are parts of the state of its folding sweep, as far as they can be:
    not those that elements need (`early`), whose column the row's state decides, or of which a mask
    may leave the column out."""
    if sweep.only is not None or sweep.span != (None, None):
        return kernel
    steps = [*kernel.prelude, *(s for one in kernel.sweeps for s in one.steps)]
    before = _known_before(kernel, steps)
    gathers = [s for s in steps if isinstance(s, Gather) and s not in early
               and names_in(s.index) <= before]
    if not gathers:
        return kernel
    picks = _Picks(kernel, taken)
    instead: dict[Step, tuple[Step, ...]] = {g: picks.steps(g) for g in gathers}
    needs = {n for g in gathers for n in names_in(g.index)}
    prelude = [s for s in steps if s in kernel.prelude or (s.name in before and s.name in needs)]
    late = _after(prelude, instead)
    sweeps = []
    for one in kernel.sweeps:
        own = [*late, *one.steps] if one is sweep else one.steps
        kept = tuple(new for s in own if s in late or s not in prelude
                     for new in instead.get(s, (s,)))
        sweeps.append(replace(picks.joined(one) if one is sweep else one, steps=kept))
    return replace(kernel, prelude=tuple(s for s in prelude if s not in late),
                   sweeps=tuple(sweeps))


def _known_before(kernel: Kernel, steps: Collection[Step]) -> frozenset[str]:
    """Row values that every piece can compute: of the row's inputs alone."""
    known = {p.name for p in kernel.params if p.shape in ("row", "scalar") and not p.output}
    for step in steps:
        if isinstance(step, Let) and names_in(step.expr) <= known:
            known.add(step.name)
    return frozenset(known)


def _after(prelude: Collection[Step], gathers: Collection[Step]) -> list[Step]:
    """Those of the steps that wait for what is gathered: the gathers themselves among them."""
    found: list[Step] = []
    names: set[str] = set()
    for step in prelude:
        if step in gathers or names_in(step) & names:
            found.append(step)
            names.add(step.name)
    return found


@dataclass
class _Picks:
    """Parts of a state, each once for an array and a column."""

    kernel: Kernel
    taken: Taken
    parts: dict[tuple[str, Expr], Folded] = field(default_factory=dict)
    loads: dict[str, None] = field(default_factory=dict)

    def steps(self, gather: Gather) -> tuple[Let, ...]:
        """What the row makes of its parts, in place of the gather."""
        index = convert(gather.index, "int")
        known: dict[str, Expr] = {f"{gather.name}_at": index}
        for name in gather.loads:
            known[name] = self._value(name, gather, index)
        lets = []
        for let in gather.lets:
            name = self.taken.free(let.name)
            lets.append(Let(name, substitute(let.expr, known), let.note))
            known[let.name] = Var(name, let.expr.kind)
        there = call("gt", self._part("", gather, index), Lit(0, "int"))
        value = call("where", there, substitute(gather.value, known), Lit(float("nan")))
        return (*lets, Let(gather.name, value, gather.note))

    def joined(self, sweep: Sweep) -> Sweep:
        """The sweep that folds them too."""
        monoid = replace(sweep.monoid, folded=(*sweep.monoid.folded, *self.parts.values()))
        loads = dict.fromkeys((*sweep.loads, *map(FromMemory, self.loads)))
        return replace(sweep, loads=tuple(loads), monoid=monoid)

    def _value(self, array: str, gather: Gather, index: Expr) -> Expr:
        """Of an array, at that column."""
        self.loads[array] = None
        found = self._part(array, gather, index)
        kind = self.kernel.param(array).dtype.kind
        return call("ne", found, Lit(0, "int")) if kind == "bool" else found

    def _part(self, array: str, gather: Gather, index: Expr) -> Var:
        """The part for an array; how often the column was seen, for no array."""
        known = self.parts.get((array, index))
        if known is None:
            name = self._name(array, gather)
            here = call("eq", COLUMN, index)
            kind = self.kernel.param(array).dtype.kind if array else "bool"
            if kind == "float":
                lift = call("where", here, Var(array, kind, varying=True), Lit(float("-inf")))
                known = Folded(name, "max", lift, "float")
            else:
                value = Var(array, kind, varying=True) if array else Lit(1, "int")
                lift = call("where", here, convert(value, "int"), Lit(0, "int"))
                known = Folded(name, "sum", lift, "int")
            self.parts[array, index] = known
        return Var(f"state.{known.name}", known.kind)

    def _name(self, array: str, gather: Gather) -> str:
        """The gather's own for its first array, as reductions have theirs; one that is derived from
        it, and so nobody else's (`Taken`); new ones for further arrays."""
        if array == gather.loads[0]:
            return gather.name
        if not array:
            return f"{gather.name}_found"
        return self.taken.free(f"{gather.name}_and_{array}")
