"""What is known of a row before the sweeps, and what follows from a sweep's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from fusegen.backend.cuda.emit.dialect import C_TYPES
from fusegen.backend.cuda.emit.places import array_name, load_line, place_in_row
from fusegen.backend.cuda.emit.rows import step_lines
from fusegen.backend.cuda.emit.tiles.lists import OWNERS, ListPrinter
from fusegen.backend.cuda.emit.tiles.scope import Scope
from fusegen.backend.cuda.emit.vectors import columns_of, number_line, taken
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule, held_numbers, parts_of
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line, inside
from fusegen.backend.emit.vector_sums import VectorSum, numbered, sums_of_state, vectors_of
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import Expr, Var, substitute, variables
from fusegen.ir.kernel import ROW, InnerStep, Kernel, RowStore, Step, Sweep
from fusegen.ir.kernel_walk import names_in

NUMBER = "4 * (j / 2) + 2 * kSlot + j % 2"
"""Of a row, in what a lane has of a sum of vectors: number `i`."""


@dataclass(frozen=True)
class FinishView:
    """What follows from a row's state, once it is known."""

    steps: tuple[Line, ...]
    numbers: tuple[Line, ...]  # results that are numbers
    vectors: tuple[VectorStoreView, ...]
    kept: tuple[str, ...]  # row values that a later sweep uses


@dataclass(frozen=True)
class VectorStoreView:
    """A result that is a vector, number `i` by number; neighbours are stored together."""

    held: int  # numbers of a block, or a warp
    offset: str  # C++: the first of them
    length: int
    type: str
    place: str  # where the row's begins
    aligned: str  # condition: do all rows' begin at multiples of 16 bytes? "": that is not asked
    before: tuple[Line, ...]
    lines: tuple[Line, ...]


class RowPrinter:
    """Prints row scope for one kernel."""

    def __init__(self, kernel: Kernel, scope: Scope, schedule: TileSchedule) -> None:
        self.schedule = schedule
        self.kernel, self.scope, self.dialect = kernel, scope, scope.dialect

    def prelude(self) -> list[Line]:
        """Statements of `row_of`: everything that is known of a row before its first sweep."""
        lines = [load_line(p, place_in_row(p), self.dialect, array_name(p), ROW.name)
                 for p in self.kernel.params if p.shape == "row" and not p.output]
        lines += step_lines(self.kernel.prelude, self.kernel, self.dialect)
        names = [ln.declares for ln in lines]
        keeps = [Line(f"mine.{n} = {n};", frozenset([n])) for n in self.scope.kept if n in names]
        return self.scope.opened([*lines, *keeps])

    def finish(self, sweep: Sweep, sums: Iterable[VectorSum], lists: ListPrinter) -> FinishView:
        """What each lane does for its rows; what follows from lists is a warp's work."""
        self.dialect.state = "state"
        late, early = lists.steps()
        names = {s.name for s in late}
        lengths = {s.name: held_numbers(s.length, self.schedule.most_numbers) for s in sums}
        steps = [ln for s in early for ln in self._step(s, lengths, lists)]
        numbers = [s for s in sweep.row_stores if self._is_number(s) and not names & names_in(s)]
        vectors = [s for s in sweep.row_stores if not self._is_number(s)]
        stored = [self._number_store(s) for s in numbers]
        if lists.owners.given:
            stored += lists.stores()
        wide = [self._vector_store(s, set(lengths)) for s in vectors]
        self._check(late, vectors, sweep)
        body = [*steps, *stored, *(ln for v in wide for ln in (*v.before, *v.lines))]
        kept = tuple(n for n in self.scope.kept if n in {s.name for s in early})
        return FinishView((*self.scope.declared(body), *steps), tuple(stored), tuple(wide), kept)

    def finish_lists(self, sweep: Sweep, lists: ListPrinter) -> tuple[Line, ...]:
        """What a warp does for a row of its own: all that follows from its lists."""
        self.dialect.state = "state"
        late, early = lists.steps()
        names = {s.name for s in late}
        stores = [s for s in sweep.row_stores if self._is_number(s) and names & names_in(s)]
        used, steps = names_in((tuple(late), tuple(stores), sweep.list_stores)), late
        for step in reversed(early):
            if step.name in used and step.name not in self.scope.of_vectors:
                used |= names_in(step)
                steps = [step, *steps]
        lines = step_lines(steps, self.kernel, self.dialect, OWNERS)
        if stores:
            numbers = map(self._number_store, stores)
            lines += [Line("if (rank == 0) {"), *inside(numbers), Line("}")]
        return tuple(self.scope.opened([*lines, *lists.stores()]))

    def _check(self, late: list[Step], vectors: list[RowStore], sweep: Sweep) -> None:
        names = {s.name for s in late}
        following = self.kernel.sweeps[self.kernel.sweeps.index(sweep) + 1 :]
        if names & (names_in(tuple(vectors)) | names_in(following)):
            raise BackendError(
                f"{self.kernel.name}: {', '.join(sorted(names))} of a list is needed where "
                "elements or vectors are made; GPUs do not do that yet: give arrays on the CPU")

    def _is_number(self, store: RowStore) -> bool:
        return self.kernel.param(store.param).shape == "row"

    def _number_store(self, store: RowStore) -> Line:
        param = self.kernel.param(store.param)
        value = self.dialect.stored(store.value, param.dtype)
        used = self.dialect.uses(store.value) | {array_name(param), ROW.name}
        return Line(f"{place_in_row(param)} = {value};", used, note=store.note)

    def _vector_store(self, store: RowStore, sums: set[str]) -> VectorStoreView:
        param, vectors = self.kernel.param(store.param), vectors_of(self.kernel)
        several = {n: p for n, p in vectors.items() if p.k > 1}
        places: dict[str, Expr] = {f"state.{n}": Var(f"{n}_i") for n in sums}
        places |= {t.name: Var(f"{t.name}_i", t.value.kind) for t in store.takes}
        value = numbered(substitute(store.value, places), several)
        before, lines = [], []
        lines += self._numbers([n for n in sums if f"state.{n}" in variables(store.value)])
        lines += [number_line(several[n], "0", self.dialect)
                  for n in variables(store.value) if n in several]
        for first, each in taken(store.takes, self.kernel, self.dialect):
            before += first
            lines += each
        shown, divisors = self.dialect.divided(partial(self.dialect.stored, value, param.dtype))
        array, stride = array_name(param), f"{param.name}_stride"
        used = self.dialect.uses(value) | {array, stride, ROW.name}
        lines.append(Line(f"two[j % 2] = {shown};", used, note=store.note))
        share = self.schedule.share(held_numbers(param.k, self.schedule.most_numbers))
        offset = f" + threadIdx.x / 32 * {share}" if self.schedule.together else ""
        fours = param.dtype.itemsize == 2 and share % 32 == param.k % share == 0 and not offset
        fours &= -(-param.k // share) >= parts_of(self.kernel, self.schedule)  # all have numbers
        aligned = f"(reinterpret_cast<unsigned long long>({array}) | {stride} * 2) % 16 == 0"
        return VectorStoreView(share, offset, param.k, C_TYPES[param.dtype.number.name],
                               f"{array} + row * {stride}", aligned if fours else "",
                               (*before, *divisors), tuple(lines))

    def _numbers(self, sums: Iterable[str]) -> list[Line]:
        """Declarations of number `i` of the state's vectors."""
        return [Line(f"const {self.dialect.real} {n}_i = {n}_sum[{NUMBER}];", declares=f"{n}_i")
                for n in sums]

    # ---- sums over the index of vectors that the row makes ----

    def _step(self, step: Step, held: Mapping[str, int], lists: ListPrinter) -> list[Line]:
        """A row value. held: numbers that a block has of the state's vectors."""
        met = sums_of_state(step, held)
        if not met or not isinstance(step, InnerStep):
            return step_lines([step], self.kernel, self.dialect, lists.owners)
        vectors, name = vectors_of(self.kernel), step.name
        lines, tests = columns_of(step, self.dialect)
        places: dict[str, Expr] = {f"state.{n}": Var(f"{n}_i") for n in met}
        value = numbered(substitute(step.value, places), vectors)
        outside = "".join(f" || !({t})" for t in tests)
        length = next(s.width for w in self.kernel.sweeps for s in w.monoid.components
                      if s.name == met[0])
        body = [
            Line("const int i = first_number + j / 2 * 8 + j % 2;"),
            Line(f"if (i >= {length}{outside}) continue;"), *self._numbers(met),
            *(number_line(vectors[n], f"{name}_{n}_at", self.dialect)
              for n in variables(step.value) if n in vectors),
            self.dialect.line(f"{name} += {self.dialect.text(value)};", value)]
        lines += [
            Line(f"{self.dialect.real} {name} = 0;", frozenset(["n_cols"] if tests else []), name,
                 step.note),
            Line("#pragma unroll"), Line(f"for (int j = 0; j < {held[met[0]]} / 4; ++j) {{"),
            *inside(body), Line("}"),
            Line("for (int lane_mask = 1; lane_mask < kRowLanes; lane_mask *= 2)"),
            Line(f"    {name} += __shfl_xor_sync(0xffffffffu, {name}, lane_mask);")]
        if tests:
            nan = self.dialect.number(float("nan"))
            lines.append(Line(f"if (!({' && '.join(tests)})) {name} = {nan};"))
        return lines

    # ---- sums of vectors that are no products ----

    def sum_lines(self, one: VectorSum, pitches: Mapping[str, int]) -> tuple[Line, ...]:
        """What adds number `i` of column `c` of a tile to a sum that is folded one by one."""
        vectors = vectors_of(self.kernel)
        weights = {w.name: Var(f"{w.name}_c", w.value.kind) for w in one.weights}
        lines: list[Line] = []
        for name in variables(one.value):
            if name not in vectors:
                continue
            if vectors[name].shape == "row_vector":
                lines.append(number_line(vectors[name], "0", self.dialect))
            else:
                place = f"{name}_summed[c * {pitches[name]} + at]"
                lines.append(Line(f"const {self.dialect.real} {name}_i = {place};", frozenset(),
                                  f"{name}_i"))
        value = substitute(numbered(one.value, vectors), weights)
        place = f"{one.name}_sum[r / 2][4 * (j / 2) + 2 * (r % 2) + j % 2]"
        text = self.dialect.text(value)
        added = f"{place} += {text};" if one.fold is None else taken_in(
            one.fold, place, text, self.dialect.use)
        lines.append(self.dialect.line(added, value))
        return tuple(lines)
