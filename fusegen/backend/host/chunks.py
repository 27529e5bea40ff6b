"""What may be asked of this machine's processor: chunks of whole vectors, and one schedule."""

from __future__ import annotations

from fusegen.backend.target import CpuTarget
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Program

PIECE_COLUMNS = 1 << 18
"""Columns that one thread folds before it merges: 1 MiB of float32."""


def lanes_of(program: Program, target: CpuTarget) -> int:
    """Elements of the compute type in a vector."""
    return target.vector_bytes // program.kernels[0].compute.itemsize


def check_chunk(program: Program, target: CpuTarget, chunk: int | None) -> None:
    """Raises ArgumentError for a chunk that is neither 1 nor a multiple of the vector, and for one
    that is greater than a piece."""
    lanes = lanes_of(program, target)
    if chunk is not None and chunk > PIECE_COLUMNS:
        raise ArgumentError(
            f"chunk={chunk} is impossible on {target.name}",
            why=f"A thread folds {PIECE_COLUMNS} columns at most before states merge.",
            fix=f"Use {PIECE_COLUMNS} or less, or leave chunk out.",
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
