"""Lists of float32 scores by way of rounded ones: tensor cores find who may be among the best, and
only these are scored as the text says.

For vectors x and y_j, with x' and y'_j of 16 bits, a_j = x'·y'_j − ½|y_j|² (or without the last
term, where the text ranks dots) is within E of what orders the columns; −a_j where the least dots
or the greatest distances are wanted:

  |x·y − x'·y'| ≤ |x − x'||y'| + |x||y − y'|, and products and sums in float32 are off by at most
  (2d + 32)·2^-22·(|x||y| + ½|y|²), also where they begin with a bound of the row: every sum on the
  way is at most 2.5 times as large as what stands in parentheses. What is lost below the least
  normal number is at most 2^-112 in all.

Where the mean c of some columns is a large part of them, y_j − c stands for y_j, and for distances
x − c for x: neither changes the order of columns. Of 16 bits a difference has more digits.

K columns have a ≥ a_K, the K-th best found. A column with a < a_K − M, M = 2E + what the text's own
rounding is worth, is none of the K best: so all others are kept, and scored again in float32.
Norms are upper bounds, whatever underflows. What cannot be bounded (NaN, infinities, |y|² above
10^37) is kept as well, and a row of which that holds is scored in full, as one that keeps more than
there is room for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.backend.emit.ranked import Ranked, only_list, order_of
from fusegen.ir.dtypes import BFLOAT16, FLOAT32
from fusegen.ir.expr import Var, call
from fusegen.ir.kernel import (
    Entries,
    FromMemory,
    FromVectors,
    Kernel,
    Let,
    ListFold,
    Param,
    Program,
    Step,
    Sweep,
)
from fusegen.ir.monoid import KBest, Monoid

LEAST_COLUMNS = 8192  # below these two launches take longer than what they save
MOST_K, MOST_LENGTH = 256, 256


@dataclass(frozen=True, slots=True)
class Filter:
    """How a kernel's one list is found."""

    ranked: Ranked
    turned: bool  # are the least dots, or the greatest distances, the best?
    row: str  # arrays of float32 vectors
    column: str
    length: int
    best: KBest  # the text's own
    alone: bool  # is it the best one's place, and no list?
    wide: bool  # are vectors float32, so that others are made?
    exact: Sweep  # the sweep that says what a score is

    @property
    def rounded(self) -> tuple[Param, Param]:
        """Vectors of 16 bits, as many as rows and columns have."""
        width = -(-self.length // 8) * 8  # copies are of 16 bytes
        return (Param(f"{self.row}_rounded", BFLOAT16, "row_vector", True, width),
                Param(f"{self.column}_rounded", BFLOAT16, "column_vector", True, width))

    @property
    def is_dot_of_best(self) -> bool:
        """Is it the place of the greatest or least dot?"""
        return self.ranked == "dots" and self.alone

    @property
    def half(self) -> Param:
        """−½|y|², turned ½|y|², NaN where it is no finite number; 0 where dots are ranked."""
        return Param(f"{self.column}_half", FLOAT32, "columns", True)

    @property
    def norms(self) -> tuple[Param, Param]:
        """|x| and |x − x'|."""
        return (Param(f"{self.row}_radius", FLOAT32, "row", True),
                Param(f"{self.row}_rest", FLOAT32, "row", True))

    @property
    def made(self) -> tuple[Param, ...]:
        """What a first launch makes."""
        return (*self.rounded, self.half, *self.norms)


def filter_of(kernel: Kernel) -> Filter | None:
    """None where the kernel is more than one list of dots or distances of vectors of up to 32
    bits."""
    if len(kernel.sweeps) != 1 or kernel.compute != FLOAT32:
        return None
    (sweep,) = kernel.sweeps
    best = only_list(sweep.monoid)
    if best is None or len(sweep.loads) != 1 or sweep.element_stores or sweep.lets:
        return None
    (source,) = sweep.loads
    if sweep.only is not None or sweep.span != (None, None):
        return None
    if not isinstance(source, FromVectors) or best.k > MOST_K:
        return None
    order = order_of(source, best.lift)
    if order is None or not (len(source.rows) == len(source.columns) == 1):
        return None
    row, column = kernel.param(source.rows[0]), kernel.param(source.columns[0])
    kinds = {row.dtype.name, column.dtype.name}
    if not kinds <= {"float32", "bfloat16", "float16"} or not 8 <= row.k <= MOST_LENGTH:
        return None
    return Filter(order.ranked, order.turned, row.name, column.name, row.k, best,
                  not sweep.monoid.lists, kinds == {"float32"}, _of_list(sweep, best))


def _of_list(sweep: Sweep, best: KBest) -> Sweep:
    """The sweep with its one component as a list."""
    steps: list[Step] = []
    for step in sweep.steps:
        named = f"state.{best.name.removesuffix('_best')}"
        if isinstance(step, Let) and step.expr == Var(named, step.expr.kind):
            column = Var(best.column, "int")
            steps.append(ListFold(step.name, "max", Entries(best.name, 1), column, step.note))
        else:
            steps.append(step)
    return replace(sweep, steps=tuple(steps), monoid=Monoid(lists=(best,)))


def filtered(kernel: Kernel, found: Filter) -> Kernel:
    """The kernel over rounded vectors; what its list keeps is scored again by `found.exact`."""
    row, column = found.rounded
    score = FromVectors(
        "rounded_score", call("mul", Var(row.name, varying=True), Var(column.name, varying=True)),
        (row.name,), (column.name,), found.exact.loads[0].note)  # type: ignore[union-attr]
    value = call("add", Var(score.name, varying=True), Var(found.half.name, varying=True))
    sweep = replace(found.exact, loads=(score, FromMemory(found.half.name)),
                    monoid=Monoid(lists=(replace(found.best, lift=value),)))
    inputs = tuple(replace(p, output=False) for p in found.made)
    return replace(kernel, params=(*kernel.params, *inputs), sweeps=(sweep,))


def rounding(kernel: Kernel, found: Filter, made: tuple[Param, ...]) -> Kernel:
    """The launch before it, which makes what it reads: no sweep goes over a row."""
    inputs = [p for p in kernel.params if p.name in (found.row, found.column)]
    return Kernel(name=f"{kernel.name}_round", compute=kernel.compute,
                  params=(*inputs, *made), prelude=(), sweeps=())


def with_filter(program: Program, in_rounds: bool) -> Program:
    """The program as a schedule runs it that filters: in rounds (tiles/rounds.py), whose last
    kernel is the text's over the candidates, or in one sweep over the columns."""
    (kernel,) = program.kernels
    found = filter_of(kernel)
    assert found is not None
    made = found.rounded if in_rounds else found.made
    last = replace(kernel, sweeps=(found.exact,)) if in_rounds else filtered(kernel, found)
    return replace(program, kernels=(rounding(kernel, found, made), last),
                   workspace=(*program.workspace, *made))
