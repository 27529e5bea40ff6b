"""Every figure that prices are made of: one table, each with its unit and what it stands for.

Fitted to times of candidates on one H200; `python benchmarks/prices.py` measures a GPU's and fits
the figures again. Prices only have to put schedules in order. A *share* is of memory's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


def figure(value: float, unit: str, meaning: str) -> Any:
    """A field of a table below."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class FewRows:
    """Rows that leave most multiprocessors idle: microseconds that add up."""

    launch: float = figure(3.7, "µs", "launch and first load")
    element: float = figure(3e-5, "µs", "an element of a multiprocessor's blocks, a sweep")
    thread_element: float = figure(0.047, "µs", "an element of a thread")
    slice_vector: float = figure(0.056, "µs", "a vector of a thread, of rows in shared memory")
    slice_mapped: float = figure(0.14, "µs", "the same, of another array beside it")
    mapped: float = figure(0.1, "µs", "a vector that a thread maps by itself, with what rows share")
    stalled: float = figure(2.0, "factor", "on what long elements take, beside that of many rows")
    crammed: float = figure(1.5, "factor", "the same, of threads that hold too many to keep them")
    again: float = figure(0.6, "share", "rows read again: part of a sweep that L2 does not hide")
    block: float = figure(0.1, "µs", "warps of a block meet")
    block_thread: float = figure(0.0004, "µs", "the same, for every thread")
    cluster: float = figure(0.9, "µs", "blocks of a cluster meet")
    cluster_block: float = figure(0.05, "µs", "the same, for every block")
    cluster_thread: float = figure(0.0024, "µs", "the same, for every thread of a block")
    beside_16: float = figure(0.25, "µs", "clusters of 16, for every block beside")
    grid: float = figure(4.7, "µs", "blocks all over the grid meet through device memory")
    steady: float = figure(1.07, "factor", "on it, where they go from row to row")
    slices: float = figure(2.1, "µs", "the same, a part of whose rows is in shared memory")
    filling: float = figure(0.9, "µs", "shared memory fills")


@dataclass(frozen=True, slots=True)
class ManyRows:
    """Rows that fill the device: shares of the time that memory takes, which they add to."""

    registers: float = figure(0.02, "share", "a row in registers")
    shared: float = figure(0.045, "share", "a row in shared memory")
    chip: float = figure(0.146, "share", "rows that come in where others leave")
    chip_alone: float = figure(0.02, "share", "the same, one block a multiprocessor")
    band: float = figure(0.0115, "share", "short rows through shared memory")
    device: float = figure(0.05, "share", "rows that do not stay")
    small_block: float = figure(0.0016, "share", "the same, for every block more in 512 threads")
    large_block: float = figure(0.02, "share", "a row in registers of more than 512 threads")
    row_of_blocks: float = figure(0.05, "share", "a row in registers of several blocks")
    row_of_large_blocks: float = figure(0.06, "share", "the same, each of more than 256 threads")
    side_input: float = figure(0.012, "share", "a second array that is read, row in registers")
    narrow_side_input: float = figure(0.01, "share", "the same, of 16 bits")
    narrow_sides: float = figure(0.03, "share", "several of them, row in shared memory")
    again: float = figure(0.6, "share", "rows read again that are not in L2")
    again_l2: float = figure(0.03, "share", "rows read again from L2")
    again_l2_few: float = figure(0.06, "share", "the same, by one or two blocks a multiprocessor")
    cluster_2: float = figure(0.021, "share", "blocks of a cluster of 2 wait for one another")
    cluster_4: float = figure(0.032, "share", "of 4 or 8")
    cluster_16: float = figure(0.112, "share", "of 16")
    begun: float = figure(0.00048, "µs", "a block of a cluster begins")
    met: float = figure(0.4, "factor", "on what its warps do beside elements that threads hold")
    alone: float = figure(0.04, "share", "one block a multiprocessor, row in shared memory")
    alone_cluster: float = figure(0.08, "share", "the same, of a cluster")
    merge: float = figure(0.15, "element", "states that meet, in elements' worth of a thread")
    narrow_merge: float = figure(1.6, "element", "the same, of 16-bit rows")
    merge_lanes: float = figure(0.4, "factor", "on it, where lanes meet")
    merge_stored: float = figure(0.3, "factor", "on it, where rows are stored")
    rebase: float = figure(0.25, "factor", "on it, for every chunk whose sums move")
    waste_one: float = figure(0.048, "share", "threads without work in a row of one chunk")
    waste_last: float = figure(0.06, "share", "threads without work in the last chunk of several")
    held: float = figure(0.0085, "share", "items of a thread that do not fit, for as many again")
    long_lanes: float = figure(0.02, "share", "more than 4 vectors of a lane")
    long_slice: float = figure(0.13, "share", "of a thread of a cluster, written in phase")
    several: float = figure(0.095, "share", "32 elements of a thread, of each of several arrays")
    beside_band: float = figure(0.18, "share", "32 registers of a lane for it, of bands")
    beside_slices: float = figure(0.14, "share", "an array that all share, beside one such block")
    wanted_threads: float = figure(768, "thread", "of a multiprocessor, row in registers or memory")
    wanted_shared: float = figure(819, "thread", "of a multiprocessor, row in shared memory")
    starved: float = figure(1.8, "share", "threads that lack, for as many as there are")
    wanted_bytes: float = figure(126e3, "byte", "of a multiprocessor, row in registers, written")
    starved_bytes: float = figure(0.128, "share", "bytes that lack, for as many as there are")
    starved_shared: float = figure(0.384, "share", "the same, row in shared memory")
    cluster_16_alone: float = figure(0.1, "share", "clusters of 16, one block a multiprocessor")
    cluster_16_large: float = figure(0.1, "share", "the same, several of 512 threads")
    peeled_alone: float = figure(0.07, "share", "rows with edges, one block a multiprocessor")
    edge_alone: float = figure(0.28, "share", "the same, in registers, stored: nothing arrives")
    shifted_slice: float = figure(0.1, "share", "rows in shared memory that lie out of phase")
    shifted_slices: float = figure(0.16, "share", "the same, of several arrays")
    shifted_cluster: float = figure(0.04, "share", "the same of 16 bits, a cluster's registers")
    meeting: float = figure(1.3, "µs", "a block looks who is last and loads nothing")
    latency: float = figure(0.77, "µs", "from a load to its data where memory is busy")
    thread_element: float = figure(0.02, "µs", "an element that a thread holds and writes")
    rounds: float = figure(0.1, "factor", "on places that a last round leaves")
    mapped: float = figure(0.2, "µs", "a vector that a thread maps by itself, with what rows share")
    stalled: float = figure(1.8, "factor", "on instructions of elements that take long to make")
    idle: float = figure(0.45, "factor", "on multiprocessors without a team or a block")
    uneven: float = figure(0.335, "factor", "on multiprocessors that have a block less")
    clustered: float = figure(0.91, "factor", "multiprocessors that clusters of more than 2 find")
    clustered_16: float = figure(0.85, "factor", "the same, of 16")
    filling: float = figure(1.6, "µs", "shared memory fills, once")
    filling_band: float = figure(1.5, "µs", "the same, with a band of short rows")


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of the K best as rows go by."""

    narrow: float = figure(0.05, "share", "16-bit rows wait for a tile's candidates")
    ring: float = figure(0.03, "share", "a ring of 32-bit rows fills")
    ring_block: float = figure(0.07, "share", "a ring of more than 128 threads")
    crowded: float = figure(0.15, "share", "a ring beside a list of 256 or more")
    merge: float = figure(1000, "vector", "lists of blocks that meet, for every block")
    entry: float = figure(130, "instruction", "an entry of a few is found and put in order")
    entries: float = figure(128, "entry", "of a list, of which each takes half as much")
    warp: float = figure(550, "vector", "what a warp does once a row")
    idle: float = figure(5600, "vector", "under way on a multiprocessor for it to be busy")
    uneven: float = figure(0.75, "factor", "on places that the last turn leaves empty")
    launch: float = figure(6.38, "µs", "few rows: launch and list, a block each")
    launch_grid: float = figure(10.6, "µs", "the same, blocks all over the grid")
    launch_thread: float = figure(0.00047, "µs", "the same, for every thread")
    tile: float = figure(0.62, "µs", "a tile of 2048 vectors, and one for every block beside")
    least_tile: float = figure(2.25, "µs", "any tile")
    tile_narrow: float = figure(0.25, "share", "tiles of 16-bit rows take longer")
    tile_narrow_entry: float = figure(0.002, "share", "the same, for every entry of a list")
    ring_tile: float = figure(0.47, "µs", "a tile of a ring, and 1 of 2048 vectors of all blocks")
    slice: float = figure(0.11, "µs", "the list of another block")
    slice_entry: float = figure(0.0018, "factor", "on it, for every entry")
    sort: float = figure(0.39, "µs", "sorting, by the square root of K")
    cluster: float = figure(7.56, "µs", "few rows: launch and list, a cluster each")
    cluster_thread: float = figure(1 / 1000, "µs", "the same, for every thread of a block")
    cluster_vector: float = figure(0.05, "µs", "the same, for every vector of a thread")
    cluster_megabyte: float = figure(0.13, "µs", "a megabyte of all blocks' tiles")
    cluster_tile: float = figure(0.24, "µs", "any tile of a cluster, more")
    cluster_tile_vector: float = figure(1e-4, "µs", "the same, for every vector of a block")
    cluster_entry: float = figure(0.06, "µs", "the same, by the square root of K up to 256")
    cluster_sort: float = figure(0.15, "µs", "sorting, by the square root of K")
    cluster_merge: float = figure(3.5, "µs", "merging, for every entry of a thread")


@dataclass(frozen=True, slots=True)
class ShortLists:
    """Lists of short rows, in instructions of a warp."""

    rate: float = figure(5.75e9, "instruction/s", "of a multiprocessor")
    lonely: float = figure(5.46, "warp", "that lack on a multiprocessor")
    few: float = figure(0.000232, "µs", "few rows: an instruction of every warp of a scheduler")
    row: float = figure(100, "instruction", "once a row")
    row_banded: float = figure(315, "instruction", "the same, by way of shared memory")
    entry_banded: float = figure(1.52, "instruction", "the same, for every entry of its list")
    entry_apart: float = figure(1.05, "instruction", "the same, of rows that a warp has apart")
    entry_waiting: float = figure(1.64, "instruction", "the same, where they wait for neighbours'")
    edges: float = figure(30, "instruction", "once a row, more, where rows begin inside a vector")
    round: float = figure(3, "instruction", "lanes exchange states of two members, each time")
    exchange: float = figure(3.79, "instruction", "of keys of 64 bits")
    key: float = figure(6.88, "instruction", "a key of 64 bits is made")
    shuffle: float = figure(3.08, "instruction", "a key of 64 bits goes to another lane")
    pair_exchange: float = figure(1.75, "instruction", "of keys of 32 bits")
    pair_key: float = figure(0.89, "instruction", "a key of 32 bits is made, two at a time")
    pair_shuffle: float = figure(4.45, "instruction", "a key of 32 bits goes to another lane")
    settled: float = figure(1.27, "factor", "the better or worse of two lanes' keys, beside others")
    rounded_item: float = figure(5.95, "instruction", "a rounded key is made, beside its word")
    rounded_entry: float = figure(3.1, "instruction", "an entry of rounded keys is looked up")
    alone: float = figure(19.3, "instruction", "an item is loaded by itself")
    alone_banded: float = figure(0.423, "instruction", "the same from shared memory")
    wave: float = figure(1.18, "instruction", "shared memory is busy with some banks, beside that")
    vector: float = figure(7, "instruction", "a vector is loaded")
    member: float = figure(1.8, "instruction", "a member of a state takes an item")
    written: float = figure(46, "instruction", "entries are written, one a thread")
    collected: float = figure(107, "instruction", "a bar is searched for, and places")
    collected_few: float = figure(84, "instruction", "the same among lanes' greatest items")
    collected_peak: float = figure(5.4, "instruction", "for every peak of a thread")
    collected_mark: float = figure(2.4, "instruction", "an item is held to the bar")
    collected_key: float = figure(17, "instruction", "the same, and made a key")
    collected_more: float = figure(1.08, "factor", "candidates, for every entry")
    collected_column: float = figure(44, "instruction", "a candidate's column, one by one")
    collected_entry: float = figure(46, "instruction", "candidates are put in order, one a thread")
    collected_rank: float = figure(4.1, "instruction", "a candidate is held to another, of few")
    collected_bin: float = figure(28, "instruction", "bins of a thread")
    collected_crowded: float = figure(0.0077, "share", "a register leaves room for fewer warps")
    full: float = figure(0.4, "share", "blocks that fill a multiprocessor wait for their rows")
    collected_block: float = figure(38, "instruction", "threads of a block wait")
    cluster: float = figure(4.97, "µs", "clusters that collect: launch")
    cluster_round: float = figure(2.44, "µs", "as many rows as find room, beside their bytes")
    cluster_warp: float = figure(0.0153, "µs", "the same, for every warp of a row")
    cluster_entry: float = figure(0.00479, "µs", "the same, for every entry")
    cluster_member: float = figure(0.0131, "µs", "the same, a member of a state takes an item")
    cluster_word: float = figure(0.00883, "µs", "the same, for every register of a thread's items")
    cluster_16: float = figure(0.54, "µs", "the same, of clusters of 16")
    gathered: float = figure(1.66, "µs", "slices' lists, for every round of blocks")
    gathered_slice: float = figure(0.0403, "µs", "the same, for every slice")
    gathered_entry: float = figure(0.0114, "µs", "the same, for every entry")
    again: float = figure(20, "instruction", "one of the best vectors is brought again")
    line: float = figure(8.2, "instruction", "an access of a warp touches a line of memory")
    registers: float = figure(0.0506, "share", "as many registers again: half the warps")
    many: float = figure(0.0753, "share", "as many items of a lane as 32 more")
    crowded: float = figure(0.00877, "share", "a register of keys leaves room for fewer warps")


@dataclass(frozen=True, slots=True)
class ShortRows:
    """Rows that are not long: what multiprocessors do beside moving their bytes."""

    slots: float = figure(7.0e9, "instruction/s", "that a multiprocessor can issue")
    rate: float = figure(3.53e9, "instruction/s", "that it does issue while rows come and go")
    warps: float = figure(32, "warp", "of a multiprocessor, for it to issue as many")
    waves: float = figure(8.5e8, "wave/s", "of a multiprocessor's shared memory")
    held: float = figure(0.277, "share", "a lane's elements of all arrays beyond 64, for as many")
    ends: float = figure(0.317, "share", "a piece of memory for what lanes of a row reach at once")


@dataclass(frozen=True, slots=True)
class Folds:
    """Rows that are read once, for states whose merges take longer than elements do."""

    launch: float = figure(4.9, "µs", "launch and first load")
    thread: float = figure(0.0018, "µs", "the same, for every thread of a block")
    block: float = figure(0.05, "µs", "a block begins and ends, for all of a multiprocessor")
    item: float = figure(0.03, "µs", "an element that a thread holds, which none waits beside")
    cluster: float = figure(0.0067, "µs", "blocks of a cluster begin and meet, for every two")
    rate: float = figure(6.25e9, "instruction/s", "of a multiprocessor that has many warps")
    warps: float = figure(2.0, "warp", "that lack: one that is alone takes as long as so many more")
    holding: float = figure(0.71, "factor", "on instructions of rows that threads hold")
    heavy: float = figure(1.15, "factor", "on those of passing chunks of 64 elements and more")
    uneven: float = figure(0.24, "factor", "on multiprocessors that have a block less")
    bandwidth: float = figure(1.03, "factor", "on memory's, where nothing is written")
    latency: float = figure(0.8, "µs", "from a load to its data")
    ahead: float = figure(0.88, "factor", "on both, of 16-bit chunks that are asked for early")
    waves: float = figure(3.2e9, "wave/s", "of a multiprocessor's shared memory")


@dataclass(frozen=True, slots=True)
class Strips:
    """Rows that lie side by side."""

    launch: float = figure(3.3, "µs", "an empty kernel")
    latency: float = figure(0.27, "µs", "from a load to its data, under load")
    rate: float = figure(4e6 / 132, "byte/µs", "of memory, for every multiprocessor")
    issued: float = figure(9.5e3, "instruction/µs", "of a multiprocessor that has many warps")
    warps: float = figure(16.0, "warp", "that lack: one alone takes as long as so many more")
    thread: float = figure(56, "instruction", "of a thread, beside its elements")
    again: float = figure(1.6, "share", "columns that did not stay, read again")
    step: float = figure(0.5, "factor", "on latency beside transfer: threads do not stay in step")
    halts: float = figure(0.05, "share", "nothing reads while a block writes")
    halts_alone: float = figure(0.15, "share", "the same, one block a multiprocessor")
    busy: float = figure(50, "thread", "of a multiprocessor: its writes keep others waiting")
    narrow: float = figure(0.08, "share", "copies to shared memory of less than 16 bytes")
    piece: float = figure(32, "byte", "that memory reads at least")
    part_of_line: float = figure(0.1, "share", "pieces of less than a line of 128 bytes")
    straddle: float = figure(0.18, "share", "pieces of a line that lie in two")
    block: float = figure(0.5, "µs", "threads of a block meet")
    cluster: float = figure(3.8, "µs", "blocks of a cluster meet")
    grid: float = figure(2.05, "µs", "blocks all over the grid meet")
    merging: float = figure(0.0016, "µs", "an instruction of states that lanes merge in turn")
    round: float = figure(0.63, "factor", "on meetings, each time the device fills again")
    idle: float = figure(0.16, "factor", "on multiprocessors without a strip")
    clustered: float = figure(0.9, "factor", "places that clusters of more than 2 blocks find")


@dataclass(frozen=True, slots=True)
class Figures:
    """All tables."""

    few: FewRows = FewRows()  # that are written
    few_others: FewRows = FewRows(element=7.5e-5, thread_element=0.02, slice_vector=0.08,
                                  slice_mapped=0.01, cluster=1.5, beside_16=0.7, filling=3.0)
    many: ManyRows = ManyRows()
    lists: Lists = Lists()
    short_lists: ShortLists = ShortLists()
    short_rows: ShortRows = ShortRows()
    folds: Folds = Folds()
    # Of lists whose threads note chunks, beside lighter states: 2.2 µs of a launch read some again.
    noted: Folds = Folds(
        launch=5.4, thread=0.0031, block=0.35, rate=5.8e9, warps=9, heavy=1.7, uneven=1.5,
        bandwidth=0.86, latency=0.6)
    strips: Strips = Strips()

    def named(self) -> Iterator[tuple[str, float, str, str]]:
        """(table.name, value, unit, meaning) of every figure."""
        for table in fields(self):
            values = getattr(self, table.name)
            for one in fields(values):
                yield (f"{table.name}.{one.name}", getattr(values, one.name),
                       one.metadata["unit"], one.metadata["meaning"])

    def changed(self, values: Mapping[str, float]) -> Figures:
        """With these figures, by `table.name`, instead."""
        tables: dict[str, dict[str, float]] = {table.name: {} for table in fields(self)}
        for (table, own), value in ((n.split("."), v) for n, v in values.items()):
            tables[table][own] = value
        return replace(self, **{t: replace(getattr(self, t), **own) for t, own in tables.items()})


FIGURES = Figures()  # of one H200
