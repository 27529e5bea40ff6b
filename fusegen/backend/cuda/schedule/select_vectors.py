"""Which way a program over vectors runs: its elements folded where they are made, or stored all the
same. The cheapest by price, which `explain` shows.

Figures are of an H200, in steady state; other GPUs fold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.backend.cuda.schedule.products import (
    Product,
    ProductSchedule,
    factor_of,
    problem_of,
    product_of,
    storing,
    with_stored,
)
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.tiles.select import select_tiles
from fusegen.backend.cuda.schedule.tiles.splits import splits_of
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.cuda.schedule.work import Price
from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget
from fusegen.ir.kernel import InnerStep, Program

_RATES = {"fma": 21.8e12, "mma": 215e12, "wgmma": 670e12}  # operations a second, of engines
_PRODUCTS = {2: 680e12, 4: 48e12}  # of cuBLAS, by bytes of a number
_LOSES = 40.0  # µs of cuBLAS that writes float32, beside reading, from 64 rows on; many hide them
_WRITES = 15.0  # µs of this engine's that writes them, of up to so many rows
_OWN = 24, 64  # rows from which to which that is faster
_BESIDE = 1.8  # times a read's time: what is written while columns' vectors are read
_GROUPS = 9.0  # µs of blocks, two of a multiprocessor, that find lists among groups
_LABEL = 25.0  # µs: a row's dot with one column, once its other values are known
_READ = 4.25e12  # bytes a second
_LAUNCH = 5.0  # µs: products of a few rows begin and end
_MERGE = 2.0  # µs: a warp takes in what another block has of a row's list
_FIGURES_OF = 132  # multiprocessors


@dataclass(frozen=True, slots=True)
class VectorCandidate:
    """See `backend.Candidate`."""

    schedule: TileSchedule | ProductSchedule
    price: Price
    note: str = ""

    @property
    def kind(self) -> str:
        match self.schedule:
            case TileSchedule():
                return "folded where made"
            case ProductSchedule():
                return "stored"

    @property
    def short(self) -> str:
        match self.schedule:
            case TileSchedule(shape=shape):
                return f"{self.kind}, {shape}"
            case ProductSchedule(piece_rows=rows, tile=tile):
                by = "cuBLAS" if tile is None else "wgmma"
                return f"{self.kind}, made by {by}, {rows} rows at a time"


def vector_candidates(
    program: Program, problem: Problem, target: CudaTarget
) -> tuple[VectorCandidate, ...]:
    """The ways there are, the cheapest first; one where there is no choice, at no price. Raises
    BackendError where there is none."""
    folded = select_tiles(program, problem, target)
    made = product_of(program) if _may_store(program, problem, target) else None
    if made is None:
        return (VectorCandidate(folded, Price((), adds=True)),)
    fused = Price(tuple(_folded(program, problem, made, folded)), adds=True)
    stored = _stored(program, problem, target, made, fused)
    found = (VectorCandidate(folded, fused), stored)
    return tuple(sorted(found, key=lambda c: c.price.total))


def _may_store(program: Program, problem: Problem, target: CudaTarget) -> bool:
    """Is there a choice? Whoever asks for a form, or for one tree for any number of rows, has
    chosen."""
    known = problem.n_rows and problem.n_cols and problem.batch_rows == problem.n_rows
    asked = problem.may_store and not problem.any_rows and program.role == "call"
    return bool(known) and asked and target.arch == "sm_90"


def _folded(
    program: Program, problem: Problem, made: Product, schedule: TileSchedule
) -> Iterator[tuple[str, float]]:
    """Microseconds."""
    if schedule.grouped:
        yield from _grouped(problem, made, schedule)
        return
    yield "products", _products(problem, made, _RATES[schedule.engine], schedule.target)
    made_alone = any(isinstance(s, InnerStep) for k in program.kernels for s in k.prelude)
    yield "one column", _LABEL * (made_alone and not schedule.picks)
    lists = sum(len(w.monoid.lists) for w in program.sweeps)
    tiles = -(-(problem.n_rows or 1) // schedule.rows)
    splits = splits_of(tiles, -(-(problem.n_cols or 1) // schedule.columns),
                       4 * schedule.target.multiprocessors)
    rows = min(problem.n_rows or 1, 16)  # of a warp
    yield "lists of blocks", lists * _MERGE * rows * (splits - 1)


def _grouped(
    problem: Problem, made: Product, schedule: TileSchedule
) -> Iterator[tuple[str, float]]:
    """Microseconds, where a list is found among groups of stored elements."""
    rows, columns = problem.n_rows or 1, problem.n_cols or 1
    work = _products(problem, made, _RATES[schedule.engine], schedule.target)
    read = _products(problem, made, math.inf, schedule.target)
    writes = rows * columns * 4 / _READ * 1e6
    yield "products", max(work + writes, read + _BESIDE * writes)
    yield "groups", _GROUPS * max(1.0, rows / (2 * schedule.target.multiprocessors))


def _stored(
    program: Program, problem: Problem, target: CudaTarget, made: Product, fused: Price
) -> VectorCandidate:
    over = problem_of(problem, program)
    tile = _own_tile(program, problem, target)
    factor = "" if tile else factor_of(program)
    best = candidates(with_stored(program, factor), over, target)[0]
    pieces = -(-(problem.n_rows or 1) // (over.n_rows or 1))
    elements = (over.n_rows or 1) * (problem.n_cols or 1) * 4 / _READ * 1e6
    fold = best.price.total if best.price.adds else best.price.total * elements
    products = _products(problem, made, _PRODUCTS[made.row.dtype.itemsize], target, pieces)
    read = _products(problem, made, math.inf, target)
    away = max(0.0, elements - target.l2_bytes / 2 / _READ * 1e6)  # the cache holds some
    slow = read + _LOSES * min(1, (problem.n_rows or 1) / 64)
    products = read + _WRITES + away if tile else max(products, slow + pieces * away)
    price = Price((("products", products),
                   ("stored rows", pieces * (fold + _LAUNCH))), adds=True)
    reason = f"about {_time(price.total)}, {_time(fused.total)} folded where made"
    return VectorCandidate(
        ProductSchedule(target=target, rows=best.schedule, piece_rows=over.n_rows or 1,
                        tile=tile, factor=factor, reason=reason), price)


def _own_tile(program: Program, problem: Problem, target: CudaTarget) -> TileSchedule | None:
    """Of the kernel that makes elements of so few rows in less time than cuBLAS."""
    if not _OWN[0] <= (problem.n_rows or 1) <= _OWN[1]:
        return None
    found = select_tiles(storing(program), problem, target)
    return found if found.chunked else None


def _time(us: float) -> str:
    return f"{us:.0f} µs" if us < 999.5 else f"{us / 1e3:.1f} ms"


def _products(
    problem: Problem, made: Product, rate: float, target: CudaTarget, pieces: int = 1
) -> float:
    """Microseconds: arithmetic, or reading all columns' vectors, once a piece."""
    rows, columns, length = problem.n_rows or 1, problem.n_cols or 1, made.row.k
    work = 2.0 * rows * columns * length / (rate * target.multiprocessors / _FIGURES_OF)
    read = pieces * columns * length * made.column.dtype.itemsize / _READ
    return 1e6 * max(work, read)
