"""Float32 vectors as sums of bfloat16 parts, whose products tensor cores make.

x = x₁ + x₂ + x₃, each part the nearest to what those before it leave: |x₂| ≤ 2^-8·|x|,
|x₃| ≤ 2^-16·|x|. Three parts of 8 digits are a float32 exactly, but where its last digits are below
2^-133. Of the nine products that x·y is, the six of more than 2^-24·|x||y| are made, smaller ones
first, so that few sums round at full size. An element Σ xᵢ·yᵢ of d numbers is off by at most

  (2.02 + (17 / 2 + 2)·⌈d / 16⌉ + 1) · 2^-24 · Σ |xᵢ||yᵢ|:

what is left out; sums of 16 products and what was there before, each cut off behind 2 more digits
than a float32 has, and the sum behind its own; and the small ones. Of float32 arithmetic that is
d · 2^-24, which is more from d = 36 on. Measured (H200, normal numbers, d = 16 and 128), the
greatest error is half of that of float32 arithmetic. Two parts and three products ("bf16x3") leave
out 2^-16·|x||y|, one product of numbers rounded to tfloat32 2^-10·|x||y|: such a number lies as two
of 16 bits.

A vector is usual if its numbers are their three parts, exactly, and at most 2^59, so that no sum of
256 products overflows. Rows of others, and all rows where a column has another, are folded in
float32 arithmetic: NaN, infinities and the smallest numbers are what they are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.backend.cuda.schedule.tiles.groups import CHUNK, STEP
from fusegen.backend.emit.vector_sums import VectorSum, vector_sums
from fusegen.ir.dtypes import BFLOAT16, FLOAT32
from fusegen.ir.expr import Call, Var, call, substitute
from fusegen.ir.forms import Precision
from fusegen.ir.kernel import FromVectors, Kernel, Param, Program, Source, Sweep

LEAST_LENGTH, MOST_LENGTH = 8, 256  # numbers of vectors that are worth it
LEAST_WORK = 1 << 30  # products of two numbers, below which a launch more is not
LEAST_ROWS = 64  # of a batch: below, reading three parts takes longer than all else

Parts = Literal["", "tf32", "bf16x3", "bf16x6"]
"""As what float32 vectors are multiplied; "": as what they are."""

COUNT: dict[Parts, int] = {"": 1, "tf32": 1, "bf16x3": 2, "bf16x6": 3}
PRODUCTS: dict[Parts, tuple[tuple[int, int], ...]] = {
    "": ((0, 0),), "tf32": ((0, 0),), "bf16x3": ((1, 0), (0, 1), (0, 0)),
    "bf16x6": ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)),
}
"""Parts of the row's and of the column's vector that are multiplied, the smallest first."""


@dataclass(frozen=True, slots=True)
class Split:
    """An array of vectors, and the one of their parts, side by side."""

    whole: Param
    made: Param


def whole_name(parts: str) -> str:
    """The array whose parts another one has."""
    return parts.removesuffix("_parts")


def parts_for(precision: Precision, kernel: Kernel) -> Parts:
    """Tensor cores take no products of weights with vectors in tfloat32: two parts are better."""
    match precision:
        case "float32":
            return "bf16x6"
        case "tf32" if not any(vector_sums(kernel, w) for w in kernel.sweeps):
            return "tf32"
        case _:
            return "bf16x3"


def described(parts: Parts) -> str:
    """For a schedule."""
    if parts == "tf32":
        return ", of numbers rounded to tfloat32"
    return f", {len(PRODUCTS[parts])} products of {COUNT[parts]} parts in bfloat16" if parts else ""


def split_arrays(kernel: Kernel, parts: Parts) -> tuple[Split, ...] | None:
    """None where a kernel is not one sweep over dots of float32 vectors."""
    if len(kernel.sweeps) != 1 or kernel.compute != FLOAT32:
        return None
    (sweep,) = kernel.sweeps
    sources = [s for s in sweep.loads if isinstance(s, FromVectors)]
    if len(sources) != 1 or not sources[0].is_dot or sweep.element_stores:
        return None
    sums = vector_sums(kernel, sweep)
    if sweep.monoid.lists or sweep.monoid.own or not all(_is_bounded(s, sweep) for s in sums):
        return None
    summed = [s.array for s in sums]
    arrays = [kernel.param(n) for n in dict.fromkeys((*sources[0].reads, *summed))]
    names = {p.name for p in kernel.params}
    if names & {f"{p.name}_{n}" for p in arrays for n in ("parts", "unusual")}:
        return None
    if any(p.dtype.number != FLOAT32 or not LEAST_LENGTH <= p.k <= MOST_LENGTH for p in arrays):
        return None
    return tuple(_split(p, parts, CHUNK if p.name in summed else STEP) for p in arrays)


def _split(param: Param, parts: Parts, step: int) -> Split:
    """Parts of a whole number of steps each."""
    words = 2 * param.k if parts == "tf32" else param.k
    made = replace(param, name=f"{param.name}_parts", dtype=BFLOAT16, output=True,
                   k=COUNT[parts] * (-(-words // step) * step))
    return Split(param, made)


def _is_bounded(one: VectorSum, sweep: Sweep) -> bool:
    """Are its weights exp(x - max x), so that they times 2^16 are sums of parts, too?"""
    monoid = sweep.monoid
    maxima = {f.name: f.lift for f in monoid.folded if f.fold == "max"}
    weights = [Call("exp", (Var(r.name, varying=True),)) for r in monoid.relatives
               for pivot in [monoid.pivot(r.pivot)]
               if pivot.action == "shift" and isinstance(pivot.value, Var)
               and maxima.get(pivot.value.name) == r.atom]
    return bool(one.array) and one.fold is None and one.weights[0].value in weights


def unusual_rows(kernel: Kernel) -> Param:
    """1 for rows whose vector is not usual, 0 for others."""
    (source,) = (s for s in kernel.sweeps[0].loads if isinstance(s, FromVectors))
    return Param(f"{whole_name(source.rows[0])}_unusual", FLOAT32, "row", True)


def with_parts(program: Program, parts: Parts) -> Program:
    """The program as a schedule runs it that splits vectors."""
    (kernel,) = program.kernels
    splits = split_arrays(kernel, parts)
    assert splits
    made = (*(s.made for s in splits), unusual_rows(kernel))
    split = Kernel(name=f"{kernel.name}_split", compute=kernel.compute,
                   params=(*(s.whole for s in splits), *made), prelude=(), sweeps=())
    inputs = tuple(replace(p, output=False) for p in made)
    (sweep,) = kernel.sweeps
    summed = [s.array for s in vector_sums(kernel, sweep)]
    made_of_parts = _parted(sweep, parts, summed)
    parted = replace(kernel, params=(*kernel.params, *inputs), sweeps=(made_of_parts,))
    return replace(program, kernels=(split, parted), workspace=(*program.workspace, *made))


def _parted(sweep: Sweep, parts: Parts, summed: Iterable[str]) -> Sweep:
    loads: list[Source] = []
    for source in sweep.loads:
        if isinstance(source, FromVectors):
            (row,), (column,) = ((f"{n}_parts" for n in names)
                                 for names in (source.rows, source.columns))
            value = call("mul", Var(row, varying=True), Var(column, varying=True))
            loads.append(FromVectors(source.name, value, (row,), (column,), source.note, parts))
        else:
            loads.append(source)
    arrays = {n: Var(f"{n}_parts", varying=True) for n in summed}
    moving = tuple(replace(m, lift=substitute(m.lift, arrays)) if m.width > 1 else m
                   for m in sweep.monoid.moving)
    return replace(sweep, loads=tuple(loads), monoid=replace(sweep.monoid, moving=moving))
