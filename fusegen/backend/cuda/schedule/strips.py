"""Schedules for rows that lie side by side: candidates and their prices.

Memory is read in pieces of neighbouring rows, so a team owns a strip of them: `across` threads side
by side, all others down the reduced axis. Where sweeps follow one another the strip stays on chip,
in registers and shared memory of as many blocks as it needs; what does not fit is read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusegen.backend.cuda.schedule.caching import cachings
from fusegen.backend.cuda.schedule.candidate import Candidate
from fusegen.backend.cuda.schedule.cuda import (
    TYPICAL_COLUMNS,
    CudaSchedule,
)
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, Strips
from fusegen.backend.cuda.schedule.homes import Tiers
from fusegen.backend.cuda.schedule.kept_values import made_again
from fusegen.backend.cuda.schedule.launch import widest_vector
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Strip, Thread, tree
from fusegen.backend.cuda.schedule.on_chip import kept_params
from fusegen.backend.cuda.schedule.state_bytes import state_bytes
from fusegen.backend.cuda.schedule.strip_prices import LINE, pieces, row_threads, strip_work
from fusegen.backend.cuda.schedule.wide import wide_columns
from fusegen.backend.problem import HALF_VECTOR, Problem
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.kernel import Program

_MOST_GROUPS = 8  # of copies on their way to shared memory
_ROWS = 4  # of a thread: a state of each lies in registers
_LEAST = 8  # elements of a chunk, whose loads are under way together
_UNROLLED = 2000  # instructions that fold what a thread holds: more do not stay in their cache
_SHORT = 64  # columns that a thread reads by itself, whatever the bytes of a row that it asks for
_FEW, _UNPACKED = 8, 16  # vectors of 16-bit elements that are folded at once; registers for more
_ADDRESSES = 16  # registers of a thread that hold neither items nor states; more on chip
_FEWEST = 40  # registers of a thread, also of one that holds next to nothing
_MEETING = 10240  # bytes, roughly, where states meet and that every block takes
_STATIC_SHARED = 40960  # bytes where states meet; 48 KiB are there without opting in


def takes_strips(program: Program) -> bool:
    """Can the program reduce any axis? Lists and row order need neighbouring columns."""
    return not any(s.monoid.lists or s.monoid.ordered for s in program.sweeps)


def stash_groups(schedule: CudaSchedule) -> int:
    """Groups of whole chunks that copies to shared memory are awaited in."""
    assert schedule.strip is not None
    chunks = schedule.tiers.stashed // schedule.vectors
    return next((n for n in range(_MOST_GROUPS, 0, -1) if chunks % n == 0), 1)


def meeting_bytes(program: Program, schedule: CudaSchedule) -> int:
    """Shared memory where the states of a strip's rows meet: at most, of one kernel."""
    met = pieces(schedule) if row_threads(schedule) > 1 else 0
    places = met + 1 + (schedule.blocks if schedule.clustered else 0)
    return max(
        sum(state_bytes(s) for s in k.sweeps if not s.monoid.is_empty)
        for k in program.kernels
    ) * places * schedule.strip_rows


def strip_candidates(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None = None,
    figures: Figures = FIGURES,
) -> tuple[Candidate, ...]:
    """Every schedule worth a thought, cheapest first; `chunk` is a power of two if given."""
    found: dict[CudaSchedule, Candidate] = {}
    for chunks in _chunks(program, problem, chunk):
        menu = _StripMenu(program, problem, target, chunks, figures.strips)
        found |= {c.schedule: c for c in menu.all()}
    return tuple(sorted(found.values(), key=lambda c: (c.price.total, c.schedule.order)))


@dataclass(frozen=True, slots=True)
class _Chunks:
    """What a thread folds at once: neighbouring rows, and columns of strips that stay in memory or
    on chip. Many columns move a state seldom, few rows leave registers for them."""

    rows: int
    in_memory: tuple[int, ...]
    on_chip: tuple[int, ...]


def _chunks(program: Program, problem: Problem, chunk: int | None) -> Iterator[_Chunks]:
    """Vectors of as many rows as have 16 bytes, if every vector is whole, or 8 if each half is; or
    of four, which is half as many of 16 bits."""
    assert problem.inner is not None
    rows = widest_vector(program) if problem.aligned else 1
    if problem.in_phase and not problem.aligned:
        sizes = [p.dtype.itemsize for k in program.kernels for p in k.elements]
        rows = max(1, HALF_VECTOR // max(sizes, default=HALF_VECTOR))
    while problem.inner % rows:
        rows //= 2
    if chunk:
        yield _Chunks(rows, (chunk,), ())
        return
    few = tuple(n for n in (4, 8, 16) if n * rows >= _LEAST)
    if rows > _ROWS:
        yield _Chunks(rows, (), (2, 4))
        rows, few = _ROWS, (4, 8, 16)
    yield _Chunks(rows, few, few if rows < _ROWS else few[:1])


@dataclass
class _StripMenu:
    """What is offered for a program, a problem and a target, and its prices."""

    program: Program
    problem: Problem
    target: CudaTarget
    chunks: _Chunks
    figures: Strips

    def __post_init__(self) -> None:
        p, self.width = self.problem, self.chunks.rows
        assert p.inner is not None
        self.inner = p.inner
        self.n_cols = p.n_cols if p.n_cols is not None else TYPICAL_COLUMNS
        _, caching = cachings(self.program, p, self.target, self.width)
        columns = (*self.chunks.in_memory, *self.chunks.on_chip)[0]
        self.base = CudaSchedule(
            target=self.target, fixed=True, load="aligned", caching=caching,
            levels=tree(Thread(columns, self.width), 256, Block(256), Tiers()),
            wide_columns=wide_columns(self.program, self.n_cols), strip=Strip(across=1),
        )
        one = self.base.having(home=Tiers(held=1))
        kept = [] if len(self.program.kernels) > 1 else kept_params(self.program.kernels[0], one)
        self.kept = [p.dtype.itemsize * self.width for p in kept]  # bytes of a vector of each
        outer = max(1, (p.n_rows or 4096 * p.inner) // p.inner)
        self.work = strip_work(self.program, self.base, outer, self.inner, self.n_cols,
                               self.figures)

    def all(self) -> Iterator[Candidate]:
        """Where states are so large that no usual strip has a place for them, one of few rows."""
        found = list(self._usual())
        for across in (4, 2, 1):
            for columns in self.chunks.in_memory[:1]:
                one = self.base.having(threads=128, vectors=columns, strip=Strip(across))
                found = found or list(self._priced(one))
        return iter(found)

    def _usual(self) -> Iterator[Candidate]:
        for across, threads in self._shapes():
            for columns in self.chunks.on_chip if self.kept else ():
                yield from self._on_chip(self._base(across, threads, columns))
            for columns in self.chunks.in_memory:
                yield from self._from_memory(self._base(across, threads, columns))

    def _base(self, across: int, threads: int, columns: int) -> CudaSchedule:
        return self.base.having(threads=threads, vectors=columns, strip=Strip(across))

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """Threads side by side, and of a block."""
        needed = 1
        while needed * self.width < self.inner and needed < WARP:
            needed *= 2
        for across in sorted({min(needed, a) for a in (8, 16, 32)}):
            if across == needed or across * self.width * self.work.itemsize >= LINE:
                yield from ((across, threads) for threads in (128, 256, 512))
        # Rows that are a thread's own have no states to merge, which takes longer than short ones.
        if self.width * self.work.itemsize >= HALF_VECTOR or self.n_cols <= _SHORT:
            yield from ((n, n) for n in (32, 64, 128) if n * self.width <= self.inner)

    # ---- every sweep reads memory ----

    def _from_memory(self, base: CudaSchedule) -> Iterator[Candidate]:
        yield from self._priced(base)
        down = row_threads(base)
        fill = 4 * self.target.multiprocessors // self.work.strips(base)
        for blocks in sorted({2, 4, 8, 16, 32, 64, fill}) if down > 1 else ():
            if blocks < 2 or blocks * down * base.vectors > self.n_cols:
                continue
            yield from self._priced(base.having(team=Grid(blocks)))
            if self.target.clusters and blocks in (2, 4, 8, 16):
                yield from self._priced(base.having(team=Cluster(blocks)))

    # ---- later sweeps find the strip on chip ----

    def _on_chip(self, base: CudaSchedule) -> Iterator[Candidate]:
        states = sum(s.monoid.has_scalars for s in self.program.sweeps)
        first, shared = self.program.kernels[0].sweeps[0], row_threads(base) > 1
        teams = (1, 2, 4, 8, 16) if self.target.clusters and shared else (1,)
        waits = shared and states == 1 and not first.monoid.is_empty
        for held in (4, 8, 16):
            for blocks in teams:
                team = Cluster(blocks) if blocks > 1 else None
                one = self._kept(base.having(team=team), held)
                if one:
                    home = replace(one.tiers, mapped=one.vectors // 2)
                    yield from self._priced(one.having(home=home))
            for blocks in self._waiting_blocks(base, held) if waits else ():
                one = self._kept(base.having(team=Grid(blocks)), held)
                if one:
                    yield from self._priced(one)

    def _waiting_blocks(self, base: CudaSchedule, held: int) -> list[int]:
        """Blocks that share a strip, where a multiprocessor takes one, two … of them."""
        vector, down = base.threads * sum(self.kept), row_threads(base)
        rooms = [self.target.shared_per_sm // n - _MEETING for n in (1, 2, 3, 4)]
        slots = {0} | {room // vector // base.vectors * base.vectors for room in rooms}
        found = {-(-self.n_cols // (down * (held + n))) for n in slots}
        return sorted(n for n in found if 1 < n <= self.target.multiprocessors)

    def _kept(self, base: CudaSchedule, held: int) -> CudaSchedule | None:
        """A schedule with `held` of a thread's vectors in registers, the others stashed."""
        chunk, vectors = base.vectors, -(-self.n_cols // row_threads(base))  # of a thread
        stashed = max(0, -(-(vectors - held) // chunk) * chunk)
        if held >= 2 * vectors and held > 4:
            return None
        if held * sum(self.kept) > 256 or held * sum(self.kept) * base.threads > 1 << 17:
            return None  # half of a thread's registers at most
        if held > 4 and held * self.width * self.work.effort.item > _UNROLLED:
            return None
        copied = self.target.ampere and not any(size % HALF_VECTOR for size in self.kept)
        if stashed and not copied:
            return None  # copies to shared memory have 8 bytes or 16, and older GPUs have none
        room = self.target.shared_per_block - _MEETING
        most = room // (base.threads * sum(self.kept)) // chunk * chunk
        if stashed > most and base.split:
            return None  # more blocks will do
        rest, stashed = stashed > most, min(stashed, most)
        return base.having(home=Tiers(held, stashed, rest=rest))

    # ---- prices ----

    def _priced(self, one: CudaSchedule) -> Iterator[Candidate]:
        """The candidate with its price, if it fits."""
        assert one.strip is not None
        meeting = meeting_bytes(self.program, one)
        dynamic = one.threads * one.tiers.stashed * sum(self.kept)
        if meeting > _STATIC_SHARED or meeting + dynamic + 1024 > self.target.shared_per_block:
            return
        registers = self._registers(one)
        per_sm = min(
            self.target.blocks_per_sm, self.target.threads_per_sm // one.threads,
            self.target.shared_per_sm // (meeting + dynamic + 1024),
            self.target.registers_per_sm // (one.threads * registers),
        )
        resident = per_sm * self.target.multiprocessors
        if per_sm < 1 or resident < one.blocks:
            return
        one = replace(one, strip=replace(one.strip, resident=per_sm))
        yield Candidate(one, self.work.price(one, per_sm, resident))

    def _registers(self, one: CudaSchedule) -> int:
        """32-bit ones that a thread should have: for items, states, addresses."""
        assert one.strip is not None
        kernels = self.program.kernels
        word = kernels[0].compute.itemsize // 4
        fields = max(len(s.monoid.components) for s in self.program.sweeps)
        loads = max(  # in words: a vector of one row is never packed
            sum(k.param(n).dtype.itemsize if self.width > 1 else 4 * word
                for n in s.reads if k.param(n).shape == "element")
            for k in kernels for s in k.sweeps
        )
        stored = [[k.param(e.param).dtype.itemsize for e in s.element_stores]
                  for k in kernels for s in k.sweeps]
        # Results of another size do not take the place of what they come from.
        packed = max(sum(size for size in sizes if size != loads) for sizes in stored)
        items = one.vectors * self.width * (max(loads, 4 * word) + packed)
        items += one.tiers.held * sum(self.kept)
        if not any(stored):
            # What a chunk's first loop makes of a row's items for later ones. Rows that are written
            # gain more by other blocks than by these registers (up to 7 % on an H200).
            items += one.vectors * 4 * word * max(len(made_again(s)) for s in self.program.sweeps)
        # All that a thread holds is folded at once, and unpacked beside it.
        unpacked = _UNPACKED if one.tiers.held > _FEW and loads < 4 else 0
        refills = one.split and one.home.keeps
        addresses = 2 * _ADDRESSES + 8 * refills if one.home.keeps else _ADDRESSES
        addresses += 4 * max(0, len(kernels[0].params) - 2) + 64 * (word - 1)  # exp of doubles
        wanted = addresses + 2 * self.width * fields * word + items // 4 + unpacked
        return min(255, max(_FEWEST, wanted))
