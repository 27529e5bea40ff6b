"""Which tiles run a program over vectors: the one place that chooses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusegen.backend.cuda.schedule.tiles import mma
from fusegen.backend.cuda.schedule.tiles.filters import LEAST_COLUMNS, filter_of, with_filter
from fusegen.backend.cuda.schedule.tiles.grouped import MOST_BYTES
from fusegen.backend.cuda.schedule.tiles.parts import (
    LEAST_ROWS,
    LEAST_WORK,
    Parts,
    parts_for,
    split_arrays,
    with_parts,
)
from fusegen.backend.cuda.schedule.tiles.picked import MOST_ROWS, may_pick
from fusegen.backend.cuda.schedule.tiles.rounds import (
    COLUMNS,
    COPIED_ROWS,
    MOST_COLUMNS,
    SHORT_COLUMNS,
    SHORT_K,
    SHORT_WORK,
    round_tiles,
)
from fusegen.backend.cuda.schedule.tiles.tile import (
    WARP_ROWS,
    TileSchedule,
    at_once,
    shared_bytes,
    tables_of,
)
from fusegen.backend.cuda.schedule.tiles.wgmma import WgmmaTiles, pair_of
from fusegen.backend.cuda.schedule.tiles.wgmma_long import long_pair_of, long_sizes
from fusegen.backend.cuda.schedule.tiles.wgmma_sizes import tiles_of
from fusegen.backend.cuda.schedule.wide import wide_columns
from fusegen.backend.emit.vector_sums import sums_over_state, vector_sums
from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget
from fusegen.ir.errors import BackendError
from fusegen.ir.expr import variables
from fusegen.ir.kernel import FromVectors, Kernel, Program, Sweep

LITTLE = 128 << 20  # bytes: below, mma.sync is done before wgmma (H200: 33 MB 14.4 µs, 21.8)
_BROUGHT_BYTES = 24 << 10  # of shared memory: several blocks have as much on a multiprocessor
_TALL = ((64, 2, 2),)
_SHORT_TALL = ((64, 3, 2), (64, 2, 2))
_LONG_TALL = ((32, 3, 2), (32, 2, 2))  # attention of 128 numbers, H200: 1628 µs, causal 891; 1703
# and 892; of 64 columns, beside whose scores registers hold no vectors ahead, 1729 and 924
_FLAT = ((64, 2, 1), (32, 2, 1), (16, 2, 1))  # columns, stages, row tiles
_SHORT = 64  # numbers of vectors of which a third stage is worth its shared memory


def select_tiles(program: Program, problem: Problem, target: CudaTarget) -> TileSchedule:
    """The schedule of a program over vectors. Raises BackendError where there is none."""
    _check(program)
    if program.role == "finish":  # it has no columns
        return TileSchedule(target=target, engine="fma", columns=16)
    rounds = _rounds(program, problem, target)
    if rounds:
        return rounds
    wide = wide_columns(program, problem.n_cols or 1)  # whatever launches come before
    filters = not wide and _filters(program, problem, target)
    program = with_filter(program, in_rounds=False) if filters else program
    parts: Parts = "" if wide else _parts(program, problem, target)
    program = with_parts(program, parts) if parts else program
    few = _few_rows(program, problem, target)
    little = few and _little(program, problem)
    made = bool(parts)  # what a launch before makes lies well
    tiles = None if wide or filters or little else _wgmma(program, problem, target, made)
    if tiles:
        return TileSchedule(target=target, engine="wgmma", warps=4 * tiles.warpgroups,
                            columns=tiles.columns, stages=tiles.stages, parts=parts,
                            brings=bool(tiles.stored), one_tree=problem.any_rows)
    if not wide and _chunked(program, problem, target):
        groups, columns, stages = long_sizes(None if problem.any_rows else problem.batch_rows)
        return TileSchedule(target=target, engine="wgmma", warps=4 * groups, columns=columns,
                            stages=stages, chunked=True, picks=_picks(program, problem),
                            grouped=any(w.monoid.lists for w in program.sweeps),
                            one_tree=problem.any_rows)
    kernels = [k for k in program.kernels if k.sweeps]
    offered = [found for found in _candidates(program, problem, target, few=few, wide=wide)
               if all(shared_bytes(k, found) <= target.shared_per_block for k in kernels)]
    if not offered:
        raise BackendError(f"{program.name}: no tile of its vectors fits {target.arch}")
    # Where registers are too few for any of them, the smallest tile spills some.
    found = next((o for o in offered if all(_fits(k, o) for k in kernels)), offered[-1])
    return replace(found, filters=filters, one_tree=problem.any_rows)


def _candidates(
    program: Program, problem: Problem, target: CudaTarget, *, few: bool, wide: bool
) -> Iterator[TileSchedule]:
    """What may run it, the fastest first."""
    base = TileSchedule(target=target, engine="fma", wide_columns=wide,
                        whole=any(map(sums_over_state, program.kernels)))
    if _by_mma(program, target):
        if few:
            for warps, columns in ((4, 32), (8, 16), (4, 16)):
                yield replace(base, engine="mma", together=True, columns=columns, warps=warps)
        sums = any(vector_sums(k, w) for k in program.kernels for w in k.sweeps)
        short = sums and all(p.k <= _SHORT for p in program.inputs)
        many = problem.any_rows or (problem.batch_rows or WARP_ROWS * 8) > WARP_ROWS * 4
        lists = sums and any(w.monoid.lists for w in program.sweeps)
        flat = ((64, 3, 1), *_FLAT) if short else _FLAT
        tall = _SHORT_TALL if short else _LONG_TALL if sums else _TALL
        for columns, stages, row_tiles in (*tall, *flat) if many and not lists else flat:
            found = replace(base, engine="mma", columns=columns, row_tiles=row_tiles, stages=stages)
            if stages == 2 or _two_at_once(program, found):
                yield found
    for columns, row_tiles in ((64, 2), (64, 1), (32, 1), (16, 1)):
        found = replace(base, row_tiles=row_tiles, columns=columns)
        yield replace(found, brought=_brought(program, found))


def _two_at_once(program: Program, schedule: TileSchedule) -> bool:
    """Has a multiprocessor room for two blocks? One's products run beside the other's elements."""
    return all(schedule.blocks_at_once(shared_bytes(k, schedule)) > 1 for k in program.kernels)


def _brought(program: Program, schedule: TileSchedule) -> int:
    """Tiles of short vectors that come at a time: a block's threads wait for one another, and for
    memory, once for all of them."""
    if any(w.monoid.lists for w in program.sweeps):
        return 1  # whose bars rise from tile to tile
    for brought in (16, 8, 4, 2):
        found = replace(schedule, brought=brought)
        if all(at_once(tables_of(k, found, n)) and shared_bytes(k, found) <= _BROUGHT_BYTES
               for k in program.kernels for n in range(len(k.sweeps))):
            return brought
    return 1


def _by_mma(program: Program, target: CudaTarget) -> bool:
    made = [k for k in program.kernels if mma.has_products(k)]
    return target.ampere and bool(made) and all(map(mma.serves_mma, made))


def _few_rows(program: Program, problem: Problem, target: CudaTarget) -> bool:
    """Are a batch's rows so few that all warps of a block have the same?"""
    if problem.batch_rows is None or problem.any_rows or not _by_mma(program, target):
        return False
    lists = any(w.monoid.lists for w in program.sweeps)
    return problem.batch_rows <= WARP_ROWS and not lists and all(
        mma.has_products(k) and not sums_over_state(k) for k in program.kernels)


def _little(program: Program, problem: Problem) -> bool:
    """Are the columns' vectors read in so short a time that how blocks begin and meet decides?"""
    batches = (problem.n_rows or 1) // (problem.batch_rows or 1)
    vectors = [p for p in program.inputs if p.shape == "column_vector"]
    n_bytes = sum(p.k * p.dtype.itemsize for p in vectors) * (problem.n_cols or 1) * batches
    return n_bytes <= LITTLE


def _filters(program: Program, problem: Problem, target: CudaTarget) -> bool:
    """Is it worth while to find lists among rounded scores?"""
    many = problem.n_cols is not None and problem.n_cols >= LEAST_COLUMNS
    if not (target.ampere and many and len(program.kernels) == 1):
        return False
    found = filter_of(program.kernels[0])
    return found is not None and found.wide


def _rounds(program: Program, problem: Problem, target: CudaTarget) -> TileSchedule | None:
    """For lists that are found in rounds; None where they are not worth while. The place of the
    greatest dot of 16-bit vectors is found as fast by the sweep that asks for no rounding."""
    n_cols = problem.n_cols or 0
    if target.arch != "sm_90" or n_cols > MOST_COLUMNS or len(program.kernels) > 1:
        return None
    found = filter_of(program.kernels[0])
    if found is None or (found.is_dot_of_best and not found.wide):
        return None
    rows = None if problem.any_rows else problem.batch_rows
    if found.ranked == "dots" and not found.wide and rows is not None and rows < COPIED_ROWS:
        return None
    short = n_cols < LEAST_COLUMNS
    work = 0 if problem.any_rows else (problem.n_rows or 0) * n_cols * found.length
    if short and (n_cols < SHORT_COLUMNS or found.best.k > SHORT_K or work < SHORT_WORK):
        return None
    tiles = round_tiles(found.rounded[0].k)
    return TileSchedule(target=target, engine="wgmma", warps=4 * tiles.warpgroups, columns=COLUMNS,
                        stages=tiles.stages, filters=True, short=short, one_tree=problem.any_rows)


def _parts(program: Program, problem: Problem, target: CudaTarget) -> Parts:
    """As what float32 vectors are multiplied by tensor cores."""
    rows, n_cols, (kernel, *more) = problem.n_rows, problem.n_cols, program.kernels
    parts = parts_for(problem.precision, kernel)
    if target.arch != "sm_90" or more or not rows or not n_cols or problem.any_rows:
        return ""
    splits = split_arrays(kernel, parts) if program.role == "call" else None
    if splits is None or (problem.batch_rows or rows) < LEAST_ROWS or \
            rows * n_cols * splits[0].whole.k < LEAST_WORK:
        return ""
    pair = pair_of(with_parts(program, parts).kernels[-1])
    return parts if pair and tiles_of(pair) else ""


def _wgmma(
    program: Program, problem: Problem, target: CudaTarget, made: bool
) -> WgmmaTiles | None:
    """Sizes for the engine; None where it does not serve."""
    kernel, *more = (k for k in program.kernels if k.sweeps)
    pair = pair_of(kernel)
    aligned = problem.aligned or made
    if target.arch != "sm_90" or more or pair is None or not aligned:
        return None
    batch_rows = None if problem.any_rows else problem.batch_rows
    brings = pair.summed is not None and bool(pair.stored) and problem.in_phase
    found = tiles_of(pair, problem.n_cols, batch_rows, brings=True) if brings else None
    return found or tiles_of(pair, problem.n_cols, batch_rows)


def _chunked(program: Program, problem: Problem, target: CudaTarget) -> bool:
    """Does the engine serve it, over long vectors?"""
    kernel, *more = (k for k in program.kernels if k.sweeps)
    served = target.arch == "sm_90" and program.role == "call" and not more
    if not (served and problem.aligned and long_pair_of(kernel)):
        return False
    return not kernel.sweeps[0].monoid.lists or _groups(problem)


def _groups(problem: Problem) -> bool:
    """Are elements few enough to be stored for a list?"""
    if problem.any_rows or not problem.n_rows or not problem.n_cols:
        return False
    return problem.n_rows * problem.n_cols * 4 <= MOST_BYTES


def _picks(program: Program, problem: Problem) -> bool:
    """Are there few rows, and dots with one column among their elements?"""
    few = problem.batch_rows is not None and problem.batch_rows <= MOST_ROWS
    return few and not problem.any_rows and may_pick(program.kernels[0])


def _check(program: Program) -> None:
    """Raises BackendError for what tiles do not do."""
    for sweep in program.sweeps:
        if sweep.monoid.ordered:
            raise BackendError(f"{program.name}: rows of vectors are not folded in order on a GPU; "
                               "give arrays on the CPU")
    for kernel in program.kernels:
        plain = {p.name for p in kernel.params
                 if p.shape in ("row_vector", "column_vector", "scalar")}
        for source in (s for w in kernel.sweeps for s in w.loads if isinstance(s, FromVectors)):
            for name in (n for n in variables(source.value) if n not in plain):
                raise BackendError(
                    f"{source.note}\n  On a GPU a sum over a vector's index has vectors and "
                    f"constants; {name} is one of each row: take it out of the sum, "
                    f"{name} * fg.dot(…), or give arrays on the CPU.")


def _fits(kernel: Kernel, schedule: TileSchedule) -> bool:
    """In registers?"""
    if schedule.engine == "mma":
        return all(mma.registers(kernel, w, schedule.words, rows=False) <= _most_registers(w)
                   for w in kernel.sweeps)
    word = kernel.compute.itemsize // 4
    held = max(sum(min(s.length, schedule.most_numbers) for s in vector_sums(kernel, sweep))
               for sweep in kernel.sweeps)
    sources = max(sum(isinstance(s, FromVectors) for s in w.loads) for w in kernel.sweeps)
    return word * schedule.row_tiles * (held + (sources + 1) * schedule.columns) // 2 <= 150


def _most_registers(sweep: Sweep) -> int:
    """Of scores and sums of vectors: what folds of one dot need beside them is little."""
    return 192 if len(mma.sources_of(sweep)) == 1 and len(sweep.loads) == 1 else 150
