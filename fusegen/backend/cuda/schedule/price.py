"""What a schedule is expected to cost: the time to move the bytes, times what it loses on the way.

The figures are in figures.py, fitted to times of all candidates on an H200. Other targets differ by
their facts. Prices only have to put schedules in order.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fusegen.backend.cuda.schedule.cuda import MAX_WIDTH, VECTOR_BYTES, CudaSchedule
from fusegen.backend.cuda.schedule.few_prices import figures_of, latencies, mapped
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures, ManyRows
from fusegen.backend.cuda.schedule.homes import Stay
from fusegen.backend.cuda.schedule.instructions import effort
from fusegen.backend.cuda.schedule.kept_values import keeps_value
from fusegen.backend.cuda.schedule.merges import MAX_CLUSTER
from fusegen.backend.cuda.schedule.occupancy import resident, slice_room, slots, uneven
from fusegen.backend.cuda.schedule.work import Price, Work
from fusegen.backend.target import WARP
from fusegen.ir.kernel import Program

_EASY = 4  # vectors of a thread, as many of which of another array are asked for early


def price_of(one: CudaSchedule, work: Work, figures: Figures = FIGURES) -> Price:
    """Price of a schedule for this work. Prices of the same work can be compared."""
    if work.rows is not None and work.few(one.target):
        return Price(latencies(one, work, work.rows, figures), adds=True)
    many, here = figures.many, resident(one, work)
    factors = [("home", _home(one, work, here, many)), ("merges", _merges(one, work, many)),
               ("fit", _fit(one, work, many)), ("registers", _registers(one, work, many)),
               ("threads", _threads(one, work, here, many)),
               ("arrays", _arrays(one, work, here, many))]
    if one.has_edges and not one.in_warp:
        factors.append(("edges", _edges(one, work, here, many)))
    if work.rows is not None:
        filled = _parallelism(one, work, here, work.rows, many)
        factors.append(("parallelism", filled))
        factors.append(("latency", 1.0 + _latency(one, work, figures) / filled))
        if one.clustered:
            begun = many.begun * work.rows * one.blocks / _microseconds(one, work)
            factors.append(("clusters", 1.0 + begun / math.prod(n for _, n in factors)))
    elif one.split and not one.home.keeps:
        factors.append(("meeting", _meeting(one, work, here, many)))
    return Price(tuple(factors), adds=False)


def whole_price(program: Program, one: CudaSchedule, work: Work, figures: Figures) -> Price:
    """The price where elements may take more instructions than are issued while they are moved, and
    where warps that hold rows of a cluster all meet at once, while nothing is moved."""
    price = price_of(one, work, figures)
    if one.clustered and one.home.threads_keep and not price.adds:
        met = figures.many.met * _beside(program, one, work) / price.total
        price = replace(price, parts=(*price.parts, ("meetings", 1.0 + met)))
    return _with_elements(price, program, one, work) if work.heavy else price


def _beside(program: Program, one: CudaSchedule, work: Work) -> float:
    """To issue what warps do beside their elements takes that share of moving the bytes."""
    n_cols, found = work.vectors * work.width, effort(program, one)
    row = found.of_row(one, n_cols) - found.item * n_cols / WARP
    issued = FIGURES.short_rows.slots * one.target.multiprocessors * 1e-6  # in a microsecond
    return max(1, work.rows or 0) * row / issued / _microseconds(one, work)


def _with_elements(price: Price, program: Program, one: CudaSchedule, work: Work) -> Price:
    target = one.target
    slots = FIGURES.short_rows.slots / FIGURES.many.stalled
    issued = effort(program, one).item / WARP / slots  # seconds of a multiprocessor, an element
    if price.adds:
        rows = work.rows or 1
        busy = min(rows * one.blocks, target.multiprocessors)
        seconds = issued * rows * work.vectors * work.width / busy * FIGURES.few.stalled
        if one.home.threads_keep and not one.home.steady and not keeps_value(one):
            seconds *= FIGURES.few.crammed
        return replace(price, parts=(*price.parts, ("work", seconds * 1e6)))
    moved = max(sum(p.dtype.itemsize for p in k.elements) for k in program.kernels)
    share = issued / target.multiprocessors / (moved / target.bandwidth)
    alone = resident(one, work) == 1  # nothing is moved meanwhile
    return replace(price, parts=(*price.parts, ("work", 1.0 + share if alone else max(1.0, share))))


def _home(one: CudaSchedule, work: Work, here: int, many: ManyRows) -> float:
    """Sweeps after the first find the row on chip, or read it again."""
    reads = work.sweeps > 1 and not one.home.keeps
    return one.home.factor(Stay(
        threads=one.threads, blocks=one.blocks, per_sm=one.per_sm, resident=here,
        in_warp=one.in_warp, narrow=one.width == MAX_WIDTH, stores=work.stores, extra=work.extra,
        again=_again(one, work, here, many) if reads else 0.0, waits=_waits(one.blocks, many),
    ), many)


def _again(one: CudaSchedule, work: Work, here: int, many: ManyRows) -> float:
    """Reading rows again: little is lost if they are still in L2 and arithmetic takes longer."""
    rows = here * one.target.multiprocessors * work.vectors * work.vector_bytes
    if work.extra < 2 or one.width < MAX_WIDTH or 2 * rows > one.target.l2_bytes:
        return many.again
    return many.again_l2_few if here <= 2 else many.again_l2


def _edges(one: CudaSchedule, work: Work, here: int, many: ManyRows) -> float:
    """Rows that begin or end inside a vector, kept on chip, where few of them are under way."""
    if one.home.slice_vectors and one.load == "shifted" and not one.home.steady:
        alone = work.vector_bytes <= VECTOR_BYTES  # does the first sweep fold it as it lies?
        return 1.0 + (many.shifted_slice if alone else many.shifted_slices)
    if not one.home.threads_keep or not work.stores:
        return 1.0
    words = one.load == "shifted" and one.clustered and one.width == MAX_WIDTH
    return 1.0 + (many.edge_alone if here <= 1 else 0.0) + (many.shifted_cluster if words else 0.0)


def _waits(blocks: int, many: ManyRows) -> float:
    """Blocks that keep parts of a row wait for one another."""
    return next(cost for most, cost in (
        (1, 0.0), (2, many.cluster_2), (8, many.cluster_4), (math.inf, many.cluster_16),
    ) if blocks <= most)


def _merges(one: CudaSchedule, work: Work, many: ManyRows) -> float:
    """States that meet, for every element that a thread folded."""
    chunks = 1.0
    if not one.home.of_threads:
        per_block = work.vectors / one.blocks
        chunks = max(1.0, per_block / (one.threads * one.vectors))
    heavy = many.narrow_merge if one.width == MAX_WIDTH else many.merge
    lanes = many.merge_lanes if one.in_warp else 1.0
    weight = heavy * lanes * (many.merge_stored if work.stores else 1.0)
    chunk = many.rebase * heavy / one.items  # every chunk moves the sums once
    return 1.0 + weight / (one.items * chunks) + (chunk if chunks > 1 else 0.0)


def _fit(one: CudaSchedule, work: Work, many: ManyRows) -> float:
    """Threads that find nothing in the last chunk of a row."""
    share = -(-work.vectors // one.blocks)
    chunk = one.team_threads * one.vectors
    chunks = -(-share // chunk)
    waste = chunks * chunk / share - 1.0
    return 1.0 + waste * (many.waste_one if chunks == 1 else many.waste_last)


def _registers(one: CudaSchedule, work: Work, many: ManyRows) -> float:
    """Long chunks leave room for fewer threads."""
    held = one.items * (1 + work.extra if work.stores else 1)
    limit = 64 if not work.stores else 32
    return 1.0 + many.held * max(0.0, held / limit - 1.0) + _long(one, work, many)


def _long(one: CudaSchedule, work: Work, many: ManyRows) -> float:
    """More than four vectors of a thread."""
    if one.vectors <= 4 or not one.home.threads_keep:
        return 0.0
    if one.in_warp:
        return many.long_lanes if one.lanes == WARP else 0.0
    # Out of phase, what is waited for is more than the chunk.
    slices = work.stores and one.blocks > 1 and one.load != "shifted"
    return many.long_slice if slices else 0.0


def _arrays(one: CudaSchedule, work: Work, here: int, many: ManyRows) -> float:
    """Threads that hold rows of several arrays have fewer loads under way for each. What all rows
    share takes registers beside a band's rows; and while blocks bring it that have a row in shared
    memory, others have to move theirs."""
    if one.home.slice_vectors and work.shares:
        return 1.0 + many.beside_slices * work.extra / here
    if not one.home.threads_keep:
        return 1.0
    beside = 0.0
    if one.home.band_rows:
        words = one.items if one.width == 1 else one.vectors * VECTOR_BYTES // 4
        beside = many.beside_band * work.extra * words / 32
    several = one.blocks == 1 and work.vector_bytes > VECTOR_BYTES
    return 1.0 + beside + (many.several * one.items / 32 if several else 0.0)


def _threads(one: CudaSchedule, work: Work, blocks: int, many: ManyRows) -> float:
    """Where shared memory has room for few blocks, they need many threads."""
    here = blocks * one.threads  # of a multiprocessor
    if not slice_room(one, work):
        if one.home.threads_keep and work.stores and not one.in_warp:
            under_way = here * one.vectors * (work.vector_bytes + _asked(one, work, blocks))
            return 1.0 + many.starved_bytes * max(0.0, many.wanted_bytes / under_way - 1.0)
        # No more are wanted than the rows give work to: then each may have long chunks.
        there = (work.rows or math.inf) * one.team_threads * one.blocks
        wanted = min(many.wanted_threads, max(here, there / one.target.multiprocessors))
        return 1.0 + many.starved * max(0.0, wanted / here - 1.0)
    peeled = one.has_edges
    wanted = many.wanted_threads if peeled and here < 1024 else many.wanted_shared
    alone = 0.0
    if one.clustered and one.blocks == MAX_CLUSTER:
        if here == one.threads:
            alone += many.cluster_16_alone  # 7 clusters on 132 multiprocessors
        elif one.threads >= 512:
            alone += many.cluster_16_large
    if peeled and here == one.threads:
        alone += many.peeled_alone
    return 1.0 + many.starved_shared * max(0.0, wanted / here - 1.0) + alone


def _asked(one: CudaSchedule, work: Work, blocks: int) -> int:
    """Bytes that come beside a vector of the one array that all rows share, while states meet."""
    early = work.extra == 1 and one.load == "aligned" and one.vectors <= _EASY
    return VECTOR_BYTES if work.shares and early and blocks > 1 else 0


def _meeting(one: CudaSchedule, work: Work, here: int, many: ManyRows) -> float:
    """A block that has read its part of a row looks who is last, and loads nothing meanwhile."""
    part = work.vectors / one.blocks * work.vector_bytes
    life = here * part / (one.target.bandwidth / one.target.multiprocessors)
    return 1.0 + many.meeting * 1e-6 / life


def _latency(one: CudaSchedule, work: Work, figures: Figures) -> float:
    """What is waited for once, however much there is to do: the smaller the work, the more."""
    many = figures.many
    fills = many.filling if one.home.slice_vectors else 0.0
    fills += many.filling_band if one.home.band_rows else 0.0
    few = figures_of(work, figures)
    waits = one.top.merge.latency(one.threads, one.blocks, few) + fills
    waits += mapped(one, work) * many.mapped
    if one.home.threads_keep and work.stores and not one.in_warp:
        waits += one.items * many.thread_element
    return waits / _microseconds(one, work)


def _microseconds(one: CudaSchedule, work: Work) -> float:
    """That moving the bytes takes; never 0."""
    moved = max(1, work.rows or 0) * work.vectors * work.vector_bytes * (2 if work.stores else 1)
    return moved * 1e6 / one.target.bandwidth


def _parallelism(
    one: CudaSchedule, work: Work, here: int, rows: int, many: ManyRows
) -> float:
    """Few blocks neither keep enough loads under way nor share the rows evenly."""
    target = one.target
    if one.home.steady:
        teams = target.multiprocessors * one.per_sm // one.blocks
        idle = target.multiprocessors * one.per_sm / (teams * one.blocks)
        return (1.0 + many.idle * (idle - 1.0)) * -(-rows // teams) * teams / rows
    filled = -(-rows // one.block_rows) * one.block_rows  # rows that blocks have room for
    blocks = filled // one.block_rows * one.blocks
    places = slots(one, here, many)
    each = work.vector_bytes if one.home.threads_keep and work.stores else VECTOR_BYTES
    chunks = 2 if one.home.next_chunk else 1
    part = one.threads * min(chunks * one.vectors, 4 if work.stores else 8) * each
    under_way = min(blocks, places) * max(part, slice_room(one, work))
    busy = min(blocks, target.multiprocessors)
    idle = 1.0 + many.idle * (target.multiprocessors / busy - 1.0)
    turns = 1.0 + many.uneven * (uneven(blocks, target.multiprocessors) - 1.0)
    if one.home.threads_keep and not one.in_warp:
        turns += many.rounds * (uneven(blocks, places) - 1.0)
    starved = max(idle, turns, target.bandwidth * many.latency * 1e-6 / under_way)
    return starved * filled / rows
