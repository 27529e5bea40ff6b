"""The schedules that are offered for rows whose columns are neighbours: what is worth a thought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.access import access, words
from fusegen.backend.cuda.schedule.anchors import loader_of
from fusegen.backend.cuda.schedule.bands import FEW_COLUMNS, Rows, band_schedules
from fusegen.backend.cuda.schedule.caching import cachings
from fusegen.backend.cuda.schedule.chips import STATIC_SHARED, chip_schedules
from fusegen.backend.cuda.schedule.cuda import (
    MAX_ITEMS,
    MAX_WIDTH,
    TYPICAL_COLUMNS,
    VECTOR_BYTES,
    CudaSchedule,
)
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures
from fusegen.backend.cuda.schedule.fold_prices import price_of_folds
from fusegen.backend.cuda.schedule.homes import Home, Registers, Shared, slice_bytes
from fusegen.backend.cuda.schedule.kept_values import keeps_heavy, keeps_more
from fusegen.backend.cuda.schedule.lanes import lane_schedules
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Lanes, Thread, tree
from fusegen.backend.cuda.schedule.lists import list_candidates, price_of_lists
from fusegen.backend.cuda.schedule.noted import price_of_noted
from fusegen.backend.cuda.schedule.on_chip import kept_params
from fusegen.backend.cuda.schedule.passing import homes_of_folds, passing_blocks, sizes, with_ahead
from fusegen.backend.cuda.schedule.price import whole_price
from fusegen.backend.cuda.schedule.registers import Needs
from fusegen.backend.cuda.schedule.short_lists import short_list_schedules
from fusegen.backend.cuda.schedule.short_prices import price_of_short_lists
from fusegen.backend.cuda.schedule.short_row_prices import Short, price_of_short
from fusegen.backend.cuda.schedule.wide import wide_columns
from fusegen.backend.cuda.schedule.work import SCARCE, Price, Work
from fusegen.backend.problem import Problem
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.expr import Call
from fusegen.ir.kernel import Program
from fusegen.ir.kernel_walk import expressions_in
from fusegen.ir.shared import lazy

_ALONE = 48  # columns up to which elements may come from memory one by one, however rows lie
_MOST_SLICES = 256  # blocks that share a row
_HEAVY_STATE = 16  # registers of a state beyond a pair: six numbers
_FUNCTIONS = frozenset({"sin", "cos", "pow"})
_MOST_AROUND_CALLS = 16
"""Elements of a thread where these are called: the code of each is there once for every element,
and around its rare part all that the thread holds is saved in memory."""


@dataclass
class Menu:
    """What is offered for a program, a problem and a target, and its prices."""

    program: Program
    problem: Problem
    target: CudaTarget
    chunk: int | None
    figures: Figures = FIGURES

    def __post_init__(self) -> None:
        p, kernel = self.problem, self.program.kernels[0]
        self.n_cols = p.n_cols if p.n_cols is not None else TYPICAL_COLUMNS
        self.width, self.load = access(self.program, p, self.n_cols, self.chunk)
        self.n_vectors = max(1, self.n_cols // self.width)
        self.rows = Rows.of(self.program, p, self.n_cols)
        self.lists = [c for s in self.program.sweeps for c in s.monoid.lists]
        self.ordered = any(s.monoid.ordered for s in self.program.sweeps)
        self.meetings = sum(s.monoid.has_scalars for s in kernel.sweeps)
        # Registers that a state takes beyond a pair of numbers, about: each level of pivots keeps
        # moves and factors of its own while states meet.
        self.state = max(
            4 * max(0, len(s.monoid.components) - 2) + 24 * max(0, len(s.monoid.levels) - 1)
            for s in self.program.sweeps
        )
        self.wide = kernel.compute.itemsize == 8
        self.words = max(words(k, s, self.width) for k in self.program.kernels for s in k.sweeps)
        self.base = CudaSchedule(
            target=self.target, levels=tree(Thread(4, self.width), 256, Block(256)),
            load=self.load, wide_columns=wide_columns(self.program, self.n_cols),
        )
        as_they_lie = 1 if self.load == "shifted" else self.width
        held, by = cachings(self.program, p, self.target, as_they_lie)
        self.held = self.base.having(home=Registers(), caching=held)
        self.streamed = self.base.having(caching=by)
        vector = self.base.having(home=Shared(1))
        found = kept_params(kernel, vector)
        kept = {p.name: p.dtype.itemsize * self.width for p in found}
        # Copies to shared memory are 16 bytes each, of memory as it lies.
        whole = all(s % VECTOR_BYTES == 0 for s in kept.values())
        self.kept_bytes = sum(kept.values()) if whole else 0
        self.shifted = sum(loader_of(p, kernel, vector) == "load_shifted" for p in found)
        self.work = Work(
            rows=p.n_rows or None, vectors=self.n_vectors, heavy=keeps_heavy(self.program),
            sweeps=max(len(k.sweeps) for k in self.program.kernels), width=self.width,
            stores=any(s.element_stores for s in self.program.sweeps),
            extra=max(sum(n not in kept for n in s.reads) for s in kernel.sweeps) if kept else 0,
            vector_bytes=max(VECTOR_BYTES, self.kept_bytes), scarce=2.0 if self.lists else SCARCE,
        )

    @lazy
    def short(self) -> Short | None:
        """What rows are that are not long."""
        return Short.of(self.program, self.rows)

    @lazy
    def calls(self) -> bool:
        """Does the text call functions?"""
        return any(isinstance(e, Call) and e.op in _FUNCTIONS for e in expressions_in(self.program))

    @property
    def _folds(self) -> bool:
        """Are rows read once, for states whose merges take longer than elements do?"""
        return self.work.sweeps == 1 and not self.work.stores and self.state >= _HEAVY_STATE

    @lazy
    def _passing(self) -> tuple[Home, ...]:
        """Where rows are that are folded as they go by; () where they are not only folded so."""
        return homes_of_folds(self.program, self.width) if self._folds else ()

    def price(self, one: CudaSchedule) -> Price:
        if one.lists != "streamed":
            work = self._work_of(one)
            return price_of_short_lists(self.program, one, work, self.short, self.figures)
        if one.home.notes:
            return price_of_noted(one, self.work, self.program, self.n_cols, self.figures)
        if self.lists:
            return price_of_lists(one, self.work, max(c.k for c in self.lists), self.figures)
        short = self.short if not self.ordered and self.chunk is None else None
        if self._folds:
            return price_of_folds(one, self.work, self.program, self.n_cols, self.figures, short)
        if short:
            return price_of_short(one, self.work, short, self.figures)
        return whole_price(self.program, one, self.work, self.figures)

    def _work_of(self, one: CudaSchedule) -> Work:
        """The work in vectors of a schedule that has others."""
        width, size = one.width, self.work.vector_bytes * one.width // self.width
        vectors = max(1, self.n_cols // width)
        return replace(self.work, vectors=vectors, width=width, vector_bytes=size)

    def all(self) -> Iterator[CudaSchedule]:
        p = self.problem
        if self.lists and not self.ordered:
            short = short_list_schedules(self.program, self.base, self.rows, self.chunk)
            yield from short
            if any(one.in_warp for one in short):
                return  # rows so short are not worth going by
            most = min(MAX_ITEMS, self.chunk or MAX_ITEMS)
            yield from list_candidates(self.program, p, self.streamed, self.n_vectors, most)
            return
        if self.ordered or self.chunk is not None:
            yield self._plain()
            return
        bands = tuple(band_schedules(self.program, self.base, self.rows))
        if bands and self.n_cols <= FEW_COLUMNS and self.load in ("shifted", "scalar"):
            yield from bands  # what else there is reads short rows element by element
            if self.load == "shifted" or self.n_cols <= _ALONE:
                yield from self._lanes()
            return
        whole = [*bands, *self._lanes(), *self._blocks()]
        if self.work.sweeps > 1 and self.kept_bytes:
            whole += self._shared()
        if all(s.monoid.is_empty and not s.element_stores for s in self.program.sweeps):
            yield from whole  # nobody goes over a row, or waits for others that do
            return
        if self.target.clusters and (self.work.sweeps > 1 or self.work.few(self.target)):
            whole += self._clusters()
        if self.target.clusters and self.work.sweeps > 1 and self.kept_bytes and self.meetings == 1:
            whole += chip_schedules(self.base, self.work, self.shifted, wide=self.wide)
        yield from whole
        # Where a row finds room on chip for its second sweep, that is better.
        stay = self.target.clusters and self.kept_bytes
        if self.work.sweeps == 1 or not stay or not any(o.home.keeps for o in self._fit(whole)):
            yield from self._split()

    def fitting(self) -> Iterator[CudaSchedule]:
        """What blocks of that size have registers for."""
        return self._fit(self.all())

    def _fit(self, found: Iterable[CudaSchedule]) -> Iterator[CudaSchedule]:
        fit = (o for o in map(self.registers.limit, found) if o.threads <= o.most_threads)
        if not self.calls:
            return fit
        every = [*fit]
        return iter([o for o in every if o.items <= _MOST_AROUND_CALLS] or every)

    @lazy
    def registers(self) -> Needs:
        """What threads have to hold."""
        kernels, monoids = self.program.kernels, [s.monoid for s in self.program.sweeps]
        narrow = all(p.dtype.itemsize == 2 for k in kernels for p in k.elements)
        inputs = max(sum(not p.output and p.shape != "scalar" for p in k.params) for k in kernels)
        seeks = any(m.best and not m.levels for m in monoids)
        return Needs(state=self.state, words=self.words, lists=tuple(self.lists), inputs=inputs,
                     stores=self.work.stores, kept_bytes=self.kept_bytes, narrow=narrow,
                     wide=self.wide, calls=self.calls, rows=self.work.rows, seeks=seeks,
                     extra=self.work.extra, heavy=self.work.heavy, more=keeps_more(self.program))

    def _lanes(self) -> Iterator[CudaSchedule]:
        arrays = max(sum(not p.output for p in k.elements) for k in self.program.kernels)
        return lane_schedules(self.streamed, self.held, self.n_vectors, self.n_cols, arrays,
                              self._passing)

    # ---- a block ----

    def _blocks(self) -> Iterator[CudaSchedule]:
        held = [*self._in_registers(self.held, self.n_vectors, self._held_vectors())]
        yield from held
        again = self.work.stores and self.work.sweeps > 1 and self.problem.n_cols is not None
        if again and any(self._fit(held)):
            return  # rows that a block holds are not read again
        heavy = self.width == MAX_WIDTH and self.state > 0  # registers for states, or for elements
        yield from passing_blocks(self.streamed, self.n_vectors, self._passing,
                                  stores=self.work.stores, heavy=heavy)

    def _held_vectors(self) -> tuple[int, ...]:
        """How many of a row a thread may hold."""
        if not self.work.stores:
            return 4, 8
        if self.kept_bytes == VECTOR_BYTES:
            return 2, 3, 4, 5, 6, 8
        unpacked = self.width == MAX_WIDTH and self.load == "shifted"  # takes more words
        return (2, 3, 4) if unpacked else (2, 3, 4, 6)

    def _in_registers(
        self, base: CudaSchedule, vectors: int, chunks: tuple[int, ...]
    ) -> Iterator[CudaSchedule]:
        """As many threads as hold these vectors, all in registers, none more than it takes."""
        sizes = {max(2 * WARP, -(-vectors // (chunk * WARP)) * WARP) for chunk in chunks}
        for threads in sorted(sizes, reverse=True):
            yield base.having(vectors=-(-vectors // threads), threads=threads)

    def _shared(self, blocks: int = 1) -> Iterator[CudaSchedule]:
        share = -(-self.n_vectors // blocks)
        kept = slice_bytes(share, self.kept_bytes, self.shifted)
        if not self.target.ampere or kept + STATIC_SHARED > self.target.shared_per_block:
            return
        light = self.work.extra == 1 or self.width == MAX_WIDTH  # is there room for a second chunk?
        heavy = self.width == MAX_WIDTH or self.kept_bytes > VECTOR_BYTES
        for threads in (128, 256, 512):
            vectors = 2 if heavy and threads == 512 else 4  # registers for more blocks
            if threads * vectors <= share:
                ahead = bool(self.work.extra) and light and 2 * share > 5 * threads * vectors
                yield self.base.having(
                    team=Cluster(blocks) if blocks > 1 else None, threads=threads, vectors=vectors,
                    home=Shared(share, early=ahead and self.load == "aligned"),
                )

    # ---- clusters, and rows that fill many multiprocessors ----

    def _clusters(self) -> Iterator[CudaSchedule]:
        sizes = self.target.cluster_sizes
        for blocks in sizes:
            if self.work.sweeps > 1 and self.kept_bytes:
                yield from self._shared(blocks)
            base = self.held.having(team=Cluster(blocks))
            share = -(-self.n_vectors // blocks)
            yield from self._in_registers(base, share, self._held_vectors())
            if self.meetings > 1 and blocks == sizes[-1]:  # states that no grid can wait for
                yield self.base.having(team=Cluster(blocks), threads=512)

    def _split(self) -> Iterator[CudaSchedule]:
        """Rows split over the grid; the last of a row's blocks merges what they found."""
        rows = self.problem.n_rows
        if not rows or rows > 4 * self.target.multiprocessors:
            return  # rows alone fill the device
        there = self.target.multiprocessors
        # About eight blocks on every multiprocessor, or as many everywhere, none with less than a
        # chunk.
        wanted = -(-8 * there // rows)
        even = {n * there // rows for n in (3, 6)}
        for threads in sizes(self._passing):
            chunks = -(-self.n_vectors // (threads * 4))
            for blocks in {2, 4, 8, min(wanted, chunks), min(2 * wanted, chunks)} | even:
                if 1 < blocks <= min(chunks, _MOST_SLICES):
                    one = self.streamed.having(team=Grid(blocks), threads=threads)
                    yield from with_ahead(one, self._passing)

    # ---- own monoids that keep row order, chunks that the user set ----

    def _plain(self) -> CudaSchedule:
        # Where order counts a thread's items are neighbours, and threads stand in row order.
        most = 1 if self.ordered else max(1, (self.chunk or MAX_ITEMS) // self.width)
        largest = max((c.k for c in self.lists), default=0)
        rows = self.problem.n_rows
        vectors = min(most, -(-self.n_vectors // WARP))
        if self.n_vectors <= WARP * vectors and largest <= WARP:
            return self.base.having(team=Lanes(), threads=128, vectors=vectors)
        one = self.base.having(vectors=min(4, most), fixed=True)
        return self._shared_row(one, -(-2 * self.target.multiprocessors // (rows or 1)), 4)

    def _shared_row(self, one: CudaSchedule, blocks: int, least: int) -> CudaSchedule:
        """Few rows: each over so many blocks, if these get at least so many chunks."""
        rows, chunks = self.problem.n_rows, self.n_vectors // (one.threads * one.vectors)
        if not rows or 2 * rows > self.target.multiprocessors or chunks < 2 * least:
            return one
        return one.having(team=Grid(max(1, min(blocks, chunks // least, 64))))
