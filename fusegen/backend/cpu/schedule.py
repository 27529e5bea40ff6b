"""Choices for a CPU: how wide a vector is and how many elements make a chunk.

The tree of a row depends on the number of columns alone, never on the number of threads: chunks
are merged left to right into a piece, pieces left to right into the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.choices import PlainSchedule
from fusegen.backend.host.chunks import (
    LONG_LIST,
    check_chunk,
    lanes_of,
    longest_list,
    piece_columns,
)
from fusegen.backend.problem import Problem
from fusegen.backend.target import CpuTarget
from fusegen.ir.kernel import Program

CHUNK_BYTES = 8 << 10
"""Of one array, in the compute type: read once from memory, then from the first-level cache. Folds
across lanes and pivots that move wait for every lane, once a chunk: in chunks of an eighth a
softmax takes a tenth longer, a short list twice as long."""

LONG_LIST_BYTES = 2 << 10
"""A chunk's beside lists that are not kept in order by insertion: these are marked and taken
between chunks, while rows keep coming from memory if that is soon."""

PAIR_BYTES = 1 << 10
"""A chunk's of rows over vectors: its elements are made for many rows at a time."""

SHORT_VECTORS = 32
"""Rows of no more than these take turns: what one has just computed, and needs next, takes longer
to come than the instructions of a step."""

ROWS_TOGETHER = 8

LIST_CHUNKS = 4
"""Chunks that go to long lists at a time: which of their vectors hold a candidate is found out
first, so that the processor mispredicts once, not once per chunk."""

AHEAD_COLUMNS = 2048
"""How far ahead memory is asked for columns: they arrive while others are folded, and what comes
after a row's last are the first of the next row. Processors see by themselves what comes
next, but some only within a page: rows from memory take 1.8 × as long there if nobody asks."""

LIST_AHEAD_COLUMNS = 4096
"""The same where long lists are kept, which take their time between two chunks."""


BLOCK_ROWS = 384
"""Of rows over vectors, as many are folded at a time: the vectors of a chunk of their columns are
brought into order once for all."""

TILE_ROWS = 24
"""Of these, those whose elements of a chunk are made at a time: they stay in a core's caches."""

PART_ROWS = 12
"""Of rows over vectors, threads get multiples: blocks of them that registers hold are full."""

BOUND_ROWS, BOUND_COLUMNS = 24, 1024
"""Fewer rows, or rows over fewer columns, have all of them scored: bounds take as long."""

CHUNKS_IN_FULL = 7
"""Chunks of which that holds after one whose bounds left out less than a quarter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSchedule(PlainSchedule):
    """How a program runs on a CPU."""

    target: CpuTarget
    lanes: int  # elements of the compute type in a vector
    chunk: int  # elements folded as the text says before ⊕ runs; 1: one at a time
    piece: int  # columns that a thread folds before states merge

    @property
    def flushes(self) -> bool:
        """Is 0 summed for subnormal exponentials (exp.hpp)? What is kept of them must not be 0."""
        return self.target.vector_bytes != 64

    @property
    def may_bound(self) -> bool:
        """Are there processors with products of bfloat16 (bounds.hpp)? Kernels ask theirs."""
        return self.target.vector_bytes == 64 and self.chunk > 1

    @property
    def short_columns(self) -> int:
        """The longest of rows that take turns; each is one chunk."""
        return min(self.chunk, SHORT_VECTORS * self.lanes)

    @property
    def list_block(self) -> int:
        """Columns that go to long lists at a time."""
        return LIST_CHUNKS * self.chunk

    @property
    def algorithm(self) -> str:
        """What the field calls the tree of merges."""
        if self.chunk == 1:
            return "online, one element at a time"
        return f"block online, chunks of {self.chunk}"

    def describe(self) -> str:
        width = "scalar" if self.chunk == 1 else f"vectors of {self.lanes}"
        return f"{width}, chunks of {self.chunk}, pieces of {self.piece} columns"


def select_cpu(
    program: Program, problem: Problem, target: CpuTarget, chunk: int | None = None
) -> CpuSchedule:
    """The schedule for `program`; `chunk` overrides the default. Raises ArgumentError for one that
    is impossible."""
    check_chunk(program, target, chunk)
    lanes = lanes_of(program, target)
    if chunk is None:
        chunk = _chunk_bytes(program) // program.kernels[0].compute.itemsize
    return CpuSchedule(target=target, lanes=lanes, chunk=chunk, piece=piece_columns(program))


def _chunk_bytes(program: Program) -> int:
    if program.has_vectors:
        return PAIR_BYTES
    return LONG_LIST_BYTES if longest_list(program) > LONG_LIST else CHUNK_BYTES
