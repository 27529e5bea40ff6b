"""Lists of rows that a team holds in registers: what reaches a bar meets in shared memory.

Every warp finds a bar that its share of the K reaches among the peaks of parts of its vectors; the
least of the bars is reached by K elements, and by little more. Threads bring these together, and
bins put them in order: one read, whatever K is. Of longer rows, blocks of a cluster have a slice
each and one bar, and bring what reaches it to the first of them. Of few rows, blocks all over the
grid have a slice each, and the last of a row's blocks finds the best of all in their lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Once, Registers
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Lanes
from fusegen.backend.cuda.schedule.topk import STATIC_SHARED_BYTES
from fusegen.backend.target import WARP

_MOST_WORDS = {4: 48, 2: 44}  # bytes of an element → registers of a thread's items
_MOST_OF_SLICE = {4: 48, 2: 32}  # the same, where several blocks hold a row
_MOST_OF_CLUSTER = 80  # the same, where blocks of a cluster do: 512 threads of 128 registers
_THREADS = (64, 128, 256, 512)
_MOST_OF_WARP = 256  # entries that one warp collects where two can: they take 0.6 to 0.9 times
_ALONE = 1.35  # candidates for an entry: a bar is of peaks, and not sought to the end
_SLACK = 1.1  # the same, beside the deviations below
_SELDOM = 5.0  # deviations of the least of several bars, which a row in a million exceeds
_KEY_BYTES = 8
_BESIDE = 64  # candidates of slices' lists, beside two and a half for an entry
_LEAST_SLICE = 2  # elements of a slice for an entry of a list
_MOST_SLICES = 528  # of a row
_SOUGHT = 4 / 3  # of K: elements that the warps of a cluster seek, of which three in four suffice
_PEAKS = 4  # for an entry of a list, where vectors share them
_DENSE = 12  # items for an entry of a list, up to which keys are made of all


def parts_of(k: int, one: CudaSchedule, *, pairs: bool) -> int:
    """Parts of a vector whose peaks are looked at: twice K of them in all, if there are as many."""
    parts = 2 if pairs and one.width > 1 else 1
    threads = one.team_threads * _blocks(one)
    while parts < one.width and threads * one.vectors * parts < 2 * k + 2 * k // 5:
        parts *= 2
    return parts


def together_of(k: int, one: CudaSchedule, *, pairs: bool) -> int:
    """Vectors whose items have one peak, or (pairs) two: all of a lane's where lanes' peaks make a
    warp's bar, else so many that there are four times K peaks; of clusters, whose bars are lower,
    one. Pairs of elements count as one."""
    vectors = one.vectors // 2 if pairs and one.width == 1 else one.vectors
    if by_lanes(k, one):
        return max(1, vectors)
    peaks = one.team_threads * (2 if pairs else 1)
    return 1 if one.clustered else max(1, vectors // -(-_PEAKS * k // peaks))


def makes_keys(k: int, one: CudaSchedule) -> bool:
    """Do so many items become candidates that keys are made of all?"""
    return _DENSE * k >= one.team_items * _blocks(one)


def _blocks(one: CudaSchedule) -> int:
    """That look for one bar."""
    return one.blocks if one.clustered else 1


def room_of(k: int, one: CudaSchedule) -> int:
    """Candidates that there is room for: what reaches the least of all warps' bars, each of which
    its share of the K reaches. A row whose candidates find no room is searched in memory, many
    times slower: of rows in any order less than one in a million."""
    edges = 2 * (one.width - 1) if one.has_edges else 0
    if one.clustered:
        return -(-(_reaching(k, one) + edges) // 8) * 8
    warps = one.team_threads // WARP
    share = max(1.0, k / warps)
    # How many elements a bar leaves above it, in rows in any order, has Gamma's distribution:
    # its far quantiles lie at s + t √s + t²/3.
    most = math.ceil(_SLACK * warps * (share + _SELDOM * math.sqrt(share) + _SELDOM**2 / 3))
    if warps == 1:  # no bar is less than another
        most = math.ceil(_ALONE * (share + 1)) + 40
    most = min(one.team_items, most)
    if one.split:  # the last block: what reaches a bar in all lists
        most = max(most, 5 * k // 2 + _BESIDE, one.blocks)
    return -(-(most + edges) // 8) * 8


def _reaching(k: int, one: CudaSchedule) -> int:
    """The same, of a cluster: what reaches the word that a quarter of its warps fall short of. Each
    has a share of s elements above its own word, so that λ = s + ⅔√s are above theirs in the mean;
    over all of them, that strays by √λ and by what a quartile of so many does."""
    warps = one.blocks * one.team_threads // WARP
    share = _SOUGHT * k / warps + 1
    mean = share + 0.68 * math.sqrt(share) + 1
    strays = math.sqrt(mean * warps) + 1.4 * math.sqrt(share * warps)
    return min(one.team_items * one.blocks, math.ceil(mean * warps + _SELDOM * strays))


def bytes_of(k: int, one: CudaSchedule) -> int:
    """Shared memory of a list: candidates twice, bins, what warps have found."""
    told = 12 * one.blocks * one.team_threads // WARP + 64 if one.clustered else 0
    return (4 << bin_bits_of(k, one)) + 512 + 2 * _KEY_BYTES * room_of(k, one) + told


def bin_bits_of(k: int, one: CudaSchedule) -> int:
    """About as many bins as candidates."""
    return min(10, max(7, (room_of(k, one) - 1).bit_length()))


def by_lanes(k: int, one: CudaSchedule) -> bool:
    """Do lanes' greatest items make a warp's bar, as topk/collected.cuh has it?"""
    sought = k + (k + 2) // 3 if one.clustered else k
    warps = one.team_threads // WARP
    return sought // (warps * _blocks(one)) <= few_lanes(warps)


def few_lanes(warps: int) -> int:
    """Of a warp's share of the K, up to which the lanes' greatest items make a bar, as
    topk/collected.cuh has it: those of one warp leave room for more candidates."""
    return 18 if warps == 1 else 12


def few_keys(warps: int) -> int:
    """Candidates that are put in order without bins, likewise."""
    return 64 if warps > 2 else 32


def _most_vectors(base: CudaSchedule, size: int, *, split: bool = False) -> int:
    """Vectors of a thread; `size`: bytes of an element in all arrays."""
    words = _MOST_OF_SLICE if split else _MOST_WORDS
    return _vectors_of(words.get(size, 32), base, size)


def _vectors_of(words: int, base: CudaSchedule, size: int) -> int:
    """That find room in so many registers."""
    return max(1, words * 4 // (base.width * size))


def collected_schedules(
    base: CudaSchedule, lists: list[int], n_vectors: int, size: int
) -> Iterator[CudaSchedule]:
    """One for every team that holds a row; `size`: bytes of an element in all arrays."""
    if base.width == 1:
        return
    yield from collected_by_warps(base, lists, n_vectors, size)
    base = replace(base.having(home=Registers()), lists="collected")
    most = _most_vectors(base, size)
    for threads in _THREADS:
        vectors = -(-n_vectors // threads)
        if vectors <= most and threads <= n_vectors and (threads < 512 or 2 * vectors > most):
            one = base.having(team=Block(threads), threads=threads, vectors=vectors)
            yield from _fitting(replace(one, fixed=True, per_sm=32), lists)


def collected_by_warps(
    base: CudaSchedule, lists: list[int], n_vectors: int, size: int
) -> Iterator[CudaSchedule]:
    vectors = -(-n_vectors // WARP)
    if max(lists) > _MOST_OF_WARP and n_vectors >= _THREADS[0] and base.width > 1:
        return
    if vectors <= _most_vectors(base, size):
        one = base.having(team=Lanes(), home=Registers(), threads=128, vectors=vectors)
        yield from _fitting(replace(one, lists="collected", fixed=True, per_sm=32), lists)


def collected_in_slices(
    base: CudaSchedule, lists: list[int], n_vectors: int, n_rows: int, size: int
) -> Iterator[CudaSchedule]:
    """A row over blocks all over the grid, so many that their threads hold it."""
    there = base.target.multiprocessors
    if base.width == 1 or 2 * n_rows > there:
        return
    base = replace(base.having(home=Once()), lists="collected")
    most = _most_vectors(base, size, split=True)
    for threads in (256, 512):
        for each in (1, 2, 3, 4):  # blocks of a multiprocessor
            share = -(-n_vectors // (each * there // n_rows))
            blocks, vectors = -(-n_vectors // share), -(-share // threads)
            long = share * base.width >= _LEAST_SLICE * max(lists)
            if 1 < blocks <= _MOST_SLICES and vectors <= most and threads <= share and long:
                one = base.having(team=Grid(blocks), threads=threads, vectors=vectors)
                yield from _fitting(replace(one, fixed=True, per_sm=2048 // threads), lists)


def collected_in_clusters(
    base: CudaSchedule, lists: list[int], n_vectors: int, size: int
) -> Iterator[CudaSchedule]:
    """A row over the blocks of a cluster, whose threads hold it."""
    if base.width == 1 or len(lists) > 1:
        return
    base, (k,) = replace(base.having(home=Registers()), lists="collected"), lists
    least = _most_vectors(base, size, split=True) // 3  # fewer would have more to tell one another
    most = _vectors_of(_MOST_OF_CLUSTER, base, size)
    for blocks in base.target.cluster_sizes:
        share = -(-n_vectors // blocks)
        for threads in (256, 512):
            vectors = -(-share // threads)
            # All blocks have some of the row.
            if least < vectors <= most and n_vectors > (blocks - 1) * share:
                one = replace(base.having(team=Cluster(blocks), threads=threads, vectors=vectors),
                              fixed=True)
                room = base.target.shared_per_sm // (bytes_of(k, one) + 1024)
                if bytes_of(k, one) <= base.target.shared_per_block:
                    yield replace(one, per_sm=max(1, min(2048 // threads, room)))


def _fitting(one: CudaSchedule, lists: list[int]) -> Iterator[CudaSchedule]:
    row = sum(bytes_of(k, one) for k in lists)
    if row * one.rows_per_block > STATIC_SHARED_BYTES:
        if not one.in_warp or row > STATIC_SHARED_BYTES // 2:
            return
        one = one.having(threads=64)
        if row * one.rows_per_block > STATIC_SHARED_BYTES:
            return
    here = one.target.shared_per_sm // (row * one.rows_per_block + 1024)
    yield replace(one, per_sm=max(1, min(one.per_sm, here)))
