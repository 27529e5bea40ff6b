"""Steps and sweeps of one kernel whose names stand for one number of a vector: with all of them.

Row values that are vectors have no name in a kernel: what they are is told where they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fusegen.ir.errors import InternalError, PipelineError
from fusegen.ir.expr import Expr, Var, substitute, variables
from fusegen.ir.kernel import (
    Entries,
    FromVectors,
    Gather,
    InnerStep,
    Let,
    ListFold,
    Param,
    RowStore,
    Source,
    Step,
    Sweep,
)
from fusegen.ir.loc import Loc
from fusegen.ir.monoid import Component, Folded, Monoid, Moving


@dataclass
class Told:
    """vectors: arrays of these; made: elements and row values that are sums over an index; late:
    lines that are such sums, of what rows make."""

    vectors: Mapping[str, Param]
    made: Mapping[str, FromVectors | InnerStep]
    late: frozenset[str] = frozenset()
    rows: dict[str, Expr] = field(default_factory=dict)  # vectors per row, by what they are called
    takes: dict[str, Gather] = field(default_factory=dict)  # vectors of one column
    gone: set[str] = field(default_factory=set)  # of the states of earlier sweeps

    def is_wide(self, expr: Expr, held: Mapping[str, int]) -> bool:
        """Is it a vector? held: components of the sweep's state that are."""
        return self.length(expr, held) > 1

    def length(self, expr: Expr, held: Mapping[str, int]) -> int:
        """Numbers in the vector; 1 where it is a number."""
        for name in variables(expr):
            component = name.removeprefix("state.")
            if name in self.vectors and self.vectors[name].k > 1:
                return self.vectors[name].k
            if component in held:
                return held[component]
            if name in self.rows:
                return self.length(self.rows[name], held)
            if name in self.takes:
                return self.length(self.takes[name].value, held)
        return 1

    def _check(self, expr: Expr) -> None:
        """Raises LaterSweep for vectors of a state that is no more."""
        if any(n in self.gone for n in variables(expr)):
            raise LaterSweep(PipelineError(
                "a sum of vectors is needed in a later sweep",
                why="Kernels store vectors of finished rows, and do not go on with them.",
                fix="Return them, and pass them as an fg.RowVector to a second pipeline."))

    # ---- steps ----

    def steps(self, steps: Iterable[Step], held: Mapping[str, int]) -> tuple[Step, ...]:
        """Those that are numbers; of the others it is noted what they are."""
        found: list[Step] = []
        for step in steps:
            if isinstance(step, Let):
                self._check(step.expr)
            match step:
                case Let() if step.name in self.late and self.is_wide(step.expr, held):
                    found.append(self._inner(step))
                case Let() if self.is_wide(step.expr, held):
                    self.rows[step.name] = substitute(step.expr, self.rows)
                case Gather() if self._takes_vectors(step):
                    lets = {let.name: let.expr for let in step.lets}
                    value = substitute(step.value, lets)
                    self.takes[step.name] = replace(step, lets=(), value=value)
                case Gather():
                    found += self._gathered(step)
                case ListFold():
                    found.append(replace(step, entries=self._entries(step.entries)))
                case _:
                    found.append(step)
        return tuple(found)

    def _inner(self, let: Let) -> InnerStep:
        """A row value that is a sum over the index of the row's vectors, and of one column's."""
        value, at = substitute(let.expr, self.rows), dict[str, Expr]()
        for name in [n for n in variables(value) if n in self.takes]:
            take = self.takes[name]
            for array in [n for n in variables(take.value) if n in self.vectors]:
                if at.setdefault(array, take.index) != take.index:
                    raise _of_one_column()
            value = substitute(value, {name: take.value})
        rows = (n for n in variables(value) if n in self.vectors and n not in at)
        return InnerStep(let.name, value, tuple(rows), tuple(at.items()), let.note)

    def _takes_vectors(self, gather: Gather) -> bool:
        return any(n in self.vectors and self.vectors[n].k > 1 for n in gather.loads)

    def _gathered(self, gather: Gather) -> Iterator[Let | Gather | InnerStep]:
        """An element at a column, where elements are made of vectors: made there alone."""
        called: dict[str, Expr] = {}
        for name in gather.loads:
            made = self.made.get(name)
            if name in self.vectors:  # of one number each
                made = FromVectors(name, Var(name, "float", varying=True), (), (name,))
            if isinstance(made, FromVectors):
                step = f"{gather.name}_{name}"
                at = tuple((column, gather.index) for column in made.columns)
                yield InnerStep(step, made.value, made.rows, at, made.note)
                called[name] = Var(step, made.value.kind, gather.index.varying)
        lets = tuple(replace(let, expr=substitute(let.expr, called)) for let in gather.lets)
        yield replace(gather, loads=tuple(n for n in gather.loads if n not in called), lets=lets,
                      value=substitute(gather.value, called))

    def _entries(self, entries: Entries) -> Entries:
        steps: list[Let | Gather | InnerStep] = []
        for step in entries.steps:
            steps += self._gathered(step) if isinstance(step, Gather) else [step]
        return replace(entries, steps=tuple(steps))

    # ---- sweeps ----

    def sweep(self, sweep: Sweep) -> Sweep:
        lets: dict[str, Expr] = {}
        numbers = []
        made = []
        for let in sweep.lets:
            self._check(let.expr)
            wide = self.is_wide(substitute(let.expr, lets), {})
            if wide and let.name in self.late:
                made.append(self._element(let, lets))
            elif self.is_wide(let.expr, {}) or any(n in lets for n in variables(let.expr)):
                lets[let.name] = substitute(substitute(let.expr, lets), self.rows)
            else:
                numbers.append(let)
        monoid, held = self._monoid(sweep.monoid, lets)
        before = set(self.rows)
        steps = self.steps(sweep.steps, held)
        stores = tuple(map(self._row_store, sweep.row_stores))
        lists = tuple(replace(s, entries=self._entries(s.entries)) for s in sweep.list_stores)
        self.gone |= set(self.rows) - before  # they are read out of this sweep's state
        lifts = [*(f.lift for f in monoid.folded), *(m.lift for m in monoid.moving)]
        met = {n for lift in lifts for n in variables(lift)}
        return replace(
            sweep, loads=(*self._loads(sweep), *made), monoid=monoid, steps=steps,
            lets=tuple(numbers), row_stores=stores, list_stores=lists,
            vectors=tuple(n for n, p in self.vectors.items() if n in met and p.k > 1),
        )

    def _element(self, let: Let, lets: Mapping[str, Expr]) -> FromVectors:
        """An element that is a sum over the index of rows' and columns' vectors."""
        value = substitute(substitute(let.expr, lets), self.rows)
        used = variables(value)
        if any(n in self.takes for n in used):
            raise _of_one_column()
        inside = [n for n, v in used.items() if v.varying and n not in self.vectors]
        if inside:
            raise number_inside(inside[0])
        rows, columns = (tuple(n for n in used if n in self.vectors
                               and self.vectors[n].shape == shape)
                         for shape in ("row_vector", "column_vector"))
        return FromVectors(let.name, value, rows, columns, let.note)

    def _row_store(self, store: RowStore) -> RowStore:
        self._check(store.value)
        value = substitute(store.value, self.rows)
        takes = tuple(self.takes[n] for n in variables(value) if n in self.takes)
        return replace(store, value=value, takes=takes)

    def _loads(self, sweep: Sweep) -> Iterator[Source]:
        for source in sweep.loads:
            found = self.made.get(source.name)
            if isinstance(found, FromVectors):
                yield found
            elif source.name not in self.vectors:
                yield source
            elif self.vectors[source.name].k == 1:
                value = Var(source.name, "float", varying=True)
                yield FromVectors(source.name, value, (), (source.name,))

    def _monoid(
        self, monoid: Monoid, lets: Mapping[str, Expr]
    ) -> tuple[Monoid, Mapping[str, int]]:
        held: dict[str, int] = {}

        def put(component: Folded | Moving) -> Component:
            self._check(component.lift)
            lift = substitute(substitute(component.lift, lets), self.rows)
            length = self.length(lift, {})
            if length == 1:
                return component
            if any(n in self.takes for n in variables(lift)):
                raise _of_one_column()
            held[component.name] = length
            return replace(component, lift=lift, width=length)

        folded, moving = (tuple(map(put, m)) for m in (monoid.folded, monoid.moving))
        found = replace(monoid, folded=folded, moving=moving)  # type: ignore[arg-type]
        if any(self.is_wide(p.value, held) for p in found.pivots):
            raise InternalError("a vector for a pivot")
        return found, held


def _of_one_column() -> LaterSweep:
    return LaterSweep(PipelineError(
        "a vector that is taken of one column meets those of others",
        why="A sweep has the vectors of its rows and its columns.",
        fix="Take it outside, and pass it as an fg.RowVector."))


def number_inside(which: str, where: Loc | None = None) -> PipelineError:
    """Of a sum over an index."""
    return PipelineError(
        "a sum over a vector's index has a number per element inside", where=where,
        why=f"Kernels make it of vectors and row values; it meets {which}.",
        fix="Take the number out of the sum: weight * fg.dot(q, k).")


class LaterSweep(Exception):
    """A vector that is known when a row is finished is needed in another sweep of its kernel.
    `refusal`: what that is where no other kernel would help."""

    def __init__(self, refusal: PipelineError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
