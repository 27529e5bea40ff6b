"""Elements at a column that is known beforehand (`fg.take(x, label)`), as parts of a state.

A piece of a row need not have the column. So a state holds whether it has been seen, and what was
there: of floats the greatest of the value at that column and −∞ at all others, of integers and
conditions the sum of the value there and 0. What is computed of it is computed of the row, and is
NaN where there is no such column.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import Expr, Lit, Var, call, substitute
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import (
    COLUMN,
    FromMemory,
    FromVectors,
    Gather,
    InnerStep,
    Kernel,
    Let,
    Step,
    Sweep,
)
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
    picks = _Picks(kernel, sweep, taken)
    instead: dict[Step, tuple[Step, ...]] = {}
    needs: set[str] = set()
    for step in steps:
        index = None if step in early else picks.column_of(step)
        if index is not None and names_in(index) <= before:
            instead[step] = picks.steps(step)
            needs |= names_in(index)
    if not instead:
        return kernel
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
    sweep: Sweep
    taken: Taken
    parts: dict[tuple[str, Expr], Folded] = field(default_factory=dict)
    loads: dict[str, None] = field(default_factory=dict)

    def column_of(self, step: Step) -> Expr | None:
        """The column that a step is of, if it is of one."""
        match step:
            case Gather(index=index):
                return index
            case InnerStep(at=((_, index), *others)) if self._item(step) is not None:
                return index if all(other == index for _, other in others) else None
            case _:
                return None

    def _item(self, step: InnerStep) -> FromVectors | None:
        """The item of the sweep that the same sum of vectors is in every column."""
        arrays = {name for name, _ in step.at}
        for one in self.sweep.loads:
            if isinstance(one, FromVectors) and one.value == step.value and (
                    {*one.rows} == {*step.rows} and {*one.columns} == arrays):
                return one
        return None

    def steps(self, step: Step) -> tuple[Let, ...]:
        """What the row makes of its parts, in place of the step."""
        if isinstance(step, InnerStep):
            item, index = self._item(step), self.column_of(step)
            assert item is not None
            assert index is not None
            return (Let(step.name, self._seen(step.name, index, self._part(
                item.name, "float", step.name, index)), step.note),)
        assert isinstance(step, Gather)
        return self._gathered(step)

    def _gathered(self, gather: Gather) -> tuple[Let, ...]:
        index = convert(gather.index, "int")
        known: dict[str, Expr] = {f"{gather.name}_at": index}
        for array in gather.loads:
            known[array] = self._value(array, gather, index)
        lets = []
        for let in gather.lets:
            name = self.taken.free(let.name)
            lets.append(Let(name, substitute(let.expr, known), let.note))
            known[let.name] = Var(name, let.expr.kind)
        value = self._seen(gather.name, index, substitute(gather.value, known))
        return (*lets, Let(gather.name, value, gather.note))

    def _seen(self, name: str, index: Expr, value: Expr) -> Expr:
        """The value where the column has been seen, else NaN."""
        seen = self._part("", "bool", f"{name}_found", index)
        return call("where", call("gt", seen, Lit(0, "int")), value, Lit(float("nan")))

    def joined(self, sweep: Sweep) -> Sweep:
        """The sweep that folds them too."""
        monoid = replace(sweep.monoid, folded=(*sweep.monoid.folded, *self.parts.values()))
        loads = dict.fromkeys((*sweep.loads, *map(FromMemory, self.loads)))
        return replace(sweep, loads=tuple(loads), monoid=monoid)

    def _value(self, array: str, gather: Gather, index: Expr) -> Expr:
        """Of an array, at that column."""
        self.loads[array] = None
        kind = self.kernel.param(array).dtype.kind
        found = self._part(array, kind, self._name(array, gather), index)
        return call("ne", found, Lit(0, "int")) if kind == "bool" else found

    def _part(self, item: str, kind: Kind, name: str, index: Expr) -> Var:
        """The part, of this name if it is new, for an item of the sweep; for none, how often the
        column was seen."""
        known = self.parts.get((item, index))
        if known is None:
            here = call("eq", COLUMN, index)
            if kind == "float":
                lift = call("where", here, Var(item, kind, varying=True), Lit(float("-inf")))
                known = Folded(name, "max", lift, "float")
            else:
                value = Var(item, kind, varying=True) if item else Lit(1, "int")
                lift = call("where", here, convert(value, "int"), Lit(0, "int"))
                known = Folded(name, "sum", lift, "int")
            self.parts[item, index] = known
        return Var(f"state.{known.name}", known.kind)

    def _name(self, array: str, gather: Gather) -> str:
        """The gather's own for its first array, as reductions have theirs; new ones for others."""
        if array == gather.loads[0]:
            return gather.name
        return self.taken.free(f"{gather.name}_and_{array}")
