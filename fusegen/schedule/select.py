"""Which schedule a program gets on a GPU: every candidate with its price, the cheapest first.

The price of a candidate is the time to move its bytes over what it is expected to reach of the
memory's speed. Figures are measured ones for an H200 (benchmarks/results); other targets scale them
by their facts. The same program, problem and target give the same schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.errors import ArgumentError
from fusegen.kernel import Program
from fusegen.schedule.cuda import VECTOR_BYTES, CudaSchedule, LoadMode
from fusegen.schedule.launch import kept_params, shared_bytes
from fusegen.schedule.problem import Problem
from fusegen.schedule.strips import strip_candidates
from fusegen.schedule.target import WARP, CudaTarget

MAX_ITEMS = 32  # of a chunk whose candidates for a list are told apart by a bit each
MAX_WIDTH = 8
_NARROW_COLUMNS = 2**30  # up to here a column number plus a few chunks fits 32 bits
_TYPICAL_COLUMNS = 8192  # where the length of a row is not known


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule and its price: time relative to the limit that bytes set, 1 at best."""

    schedule: CudaSchedule
    price: float


def select_cuda(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None = None
) -> CudaSchedule:
    """The cheapest candidate. Raises ArgumentError for an impossible chunk."""
    if problem.inner is not None:
        _check_chunk(chunk)
        return strip_candidates(program, problem, target, chunk)[0].schedule
    return candidates(program, problem, target, chunk)[0].schedule


def candidates(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None = None
) -> tuple[Candidate, ...]:
    """Every schedule worth a thought, cheapest first."""
    _check_chunk(chunk)
    menu = _Menu(program, problem, target, chunk)
    found = {c.schedule: c for c in menu.all()}
    return tuple(sorted(found.values(), key=lambda c: (c.price, repr(c.schedule))))


@dataclass
class _Menu:
    program: Program
    problem: Problem
    target: CudaTarget
    chunk: int | None

    def __post_init__(self) -> None:
        p = self.problem
        self.n_cols = p.n_cols if p.n_cols is not None else _TYPICAL_COLUMNS
        self.width, self.load = _access(self.program, p, self.n_cols, self.chunk)
        self.n_vectors = max(1, self.n_cols // self.width)
        self.lists = [c for s in self.program.sweeps for c in s.monoid.lists]
        self.ordered = any(s.monoid.ordered for s in self.program.sweeps)
        self.sweeps = max(len(k.sweeps) for k in self.program.kernels)
        self.base = CudaSchedule(
            target=self.target, team="block", home="device", threads=256, vectors=4,
            width=self.width, load=self.load, wide_columns=self.n_cols > _NARROW_COLUMNS,
        )  # fmt: skip
        vector = replace(self.base, home="shared", slice_vectors=1)
        self.kept_bytes = sum(  # of one vector of every array that stays on chip
            p.dtype.itemsize * self.width for p in kept_params(self.program.kernels[0], vector)
        )

    def all(self) -> Iterator[Candidate]:
        if self.lists or self.ordered or self.chunk is not None:
            yield self._plain()
            return
        yield from self._lanes()
        yield from self._blocks()
        if self.sweeps > 1 and self.kept_bytes:
            yield from self._on_chip()
        yield from self._split()

    # ---- teams inside a warp ----

    def _lanes(self) -> Iterator[Candidate]:
        for lanes in (8, 16, 32):
            if self.load == "peeled" and lanes < 2 * (self.width - 1):
                continue  # a lane takes one element of the edges at most
            for vectors in (1, 2, 3, 4, 6, 8):
                room = lanes * vectors
                if self.n_vectors <= room < 2 * self.n_vectors + lanes:
                    yield self._priced(replace(self.base, team="lanes", home="registers",
                                               lanes=lanes, threads=128, vectors=vectors))

    # ---- a block ----

    def _blocks(self) -> Iterator[Candidate]:
        for vectors in (2, 4, 8, 16):
            threads = -(-self.n_vectors // (vectors * WARP)) * WARP
            one = replace(self.base, home="registers", vectors=vectors, threads=max(64, threads))
            if threads <= one.most_threads:
                yield self._priced(one)
        for vectors in (4, 8):
            for threads in (128, 256, 512):
                if threads * vectors < 2 * self.n_vectors:
                    yield self._priced(replace(self.base, threads=threads, vectors=vectors))

    def _on_chip(self) -> Iterator[Candidate]:
        for blocks in (1, 2, 4, 8, 16) if self.target.clusters else (1,):
            share = -(-self.n_vectors // blocks)
            for threads, vectors in ((128, 4), (256, 2), (256, 4), (512, 2), (512, 4)):
                one = replace(self.base, team="cluster" if blocks > 1 else "block", home="shared",
                              threads=threads, vectors=vectors, blocks=blocks, slice_vectors=share)
                room = shared_bytes(self.program.kernels[0], one)
                if threads * vectors <= share and room + 16384 <= self.target.shared_per_block:
                    yield self._priced(one)
            if blocks == 1:
                continue
            for vectors in (4, 8, 16):
                threads = -(-share // (vectors * WARP)) * WARP
                one = replace(self.base, team="cluster", home="registers", vectors=vectors,
                              threads=max(64, threads), blocks=blocks)
                if threads <= one.most_threads:
                    yield self._priced(one)

    # ---- few rows ----

    def _split(self) -> Iterator[Candidate]:
        rows = self.problem.n_rows
        if not rows or self.sweeps > 1:
            return
        for threads in (128, 256, 512):
            wanted = -(-4 * self.target.multiprocessors // rows)
            for blocks in (2, 4, 8, wanted):
                if 1 < blocks <= self.n_vectors // (threads * 4):
                    yield self._priced(replace(self.base, team="grid", threads=threads, blocks=blocks))

    # ---- lists, own monoids that keep row order, chunks that the user set ----

    def _plain(self) -> Candidate:
        most = max(1, (self.chunk or MAX_ITEMS) // self.width)
        if self.ordered:
            most = 1  # a thread's items are then neighbours, and threads stand in row order
        largest = max((c.k for c in self.lists), default=0)
        rows = self.problem.n_rows
        vectors = min(most, -(-self.n_vectors // WARP))
        if self.n_vectors <= WARP * vectors and largest <= WARP:
            one = replace(self.base, team="lanes", threads=128, vectors=vectors)
        else:
            threads = 256 if largest <= 128 else 512
            one = replace(self.base, threads=threads, vectors=min(8 if self.lists else 4, most),
                          fixed=True)
            chunks = self.n_vectors // (threads * one.vectors)
            if rows and 2 * rows <= self.target.multiprocessors and chunks >= 8:
                blocks = min(-(-2 * self.target.multiprocessors // rows), chunks // 4, 64)
                one = replace(one, team="grid", blocks=max(1, blocks))
        return Candidate(one, 1.0)

    # ---- prices ----

    def _priced(self, one: CudaSchedule) -> Candidate:
        return Candidate(one, 1.0)


def _check_chunk(chunk: int | None) -> None:
    if chunk is not None and (chunk < 1 or chunk > MAX_ITEMS or chunk & (chunk - 1)):
        raise ArgumentError(
            f"chunk={chunk} is not possible on a GPU",
            why=f"A thread's chunk is a power of two, 1 to {MAX_ITEMS}: the elements it holds.",
            fix="Leave chunk out, or use 1 for the online form one element at a time.",
        )


def _access(
    program: Program, problem: Problem, n_cols: int, chunk: int | None
) -> tuple[int, LoadMode]:
    """Elements per vector, and how rows lie to vectors."""
    # Arrays between kernels are always aligned, so they share a phase with aligned rows only.
    between = any(p.shape == "element" for p in program.workspace)
    if not problem.in_phase or (between and not problem.aligned):
        return 1, "scalar"
    sizes = [p.dtype.itemsize for p in program.inputs if p.shape == "element"]
    width = min(MAX_WIDTH, VECTOR_BYTES // min(sizes, default=4), chunk or MAX_WIDTH)
    whole = problem.aligned and n_cols % width == 0
    if width > 1 and not whole and any(s.monoid.ordered for s in program.sweeps):
        return 1, "scalar"  # edges would be merged out of order
    return width, "aligned" if whole or width == 1 else "peeled"
