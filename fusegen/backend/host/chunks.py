"""What may be asked of this machine's processor: chunks of whole vectors, and one schedule."""

from __future__ import annotations

from fusegen.backend.target import CpuTarget
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Program

PIECE_COLUMNS, LIST_PIECE_COLUMNS = 1 << 15, 1 << 17
"""Columns that one thread folds before it merges: some 10 µs of work, so that few long rows keep
all threads busy. A list begins anew in each, which takes as long as some thousand columns."""

LONG_LIST = 8
"""Longest lists that are kept in order by insertion."""


def longest_list(program: Program) -> int:
    """K; 0: no list."""
    monoids = (sweep.monoid for kernel in program.kernels for sweep in kernel.sweeps)
    return max((top.k for monoid in monoids for top in monoid.lists), default=0)


def piece_columns(program: Program) -> int:
    """Of a piece of a row; states of pieces merge left to right."""
    return LIST_PIECE_COLUMNS if longest_list(program) else PIECE_COLUMNS


def lanes_of(program: Program, target: CpuTarget) -> int:
    """Elements of the compute type in a vector."""
    return target.vector_bytes // program.kernels[0].compute.itemsize


def check_chunk(program: Program, target: CpuTarget, chunk: int | None) -> None:
    """Raises ArgumentError for a chunk that is neither 1 nor a multiple of the vector, and for one
    that is greater than a piece."""
    lanes = lanes_of(program, target)
    piece = piece_columns(program)
    if chunk is not None and chunk > piece:
        raise ArgumentError(
            f"chunk={chunk} is impossible on {target.name}",
            why=f"A thread folds {piece} columns at most before states merge.",
            fix=f"Use {piece} or less, or leave chunk out.",
        )
    if chunk is not None and chunk != 1 and (chunk < lanes or chunk % lanes):
        raise ArgumentError(
            f"chunk={chunk} is impossible on {target.name}",
            why=f"A vector of {target.name} holds {lanes} {program.kernels[0].compute.name}.",
            fix=f"Use 1 (one element at a time) or a multiple of {lanes}.",
        )


def one_schedule() -> ArgumentError:
    """Why nothing is measured."""
    return ArgumentError("tune measures on a GPU, the arrays are on the CPU",
                         why="There is one schedule for a CPU.",
                         fix="Move the arrays to a GPU, or leave tune out.")
