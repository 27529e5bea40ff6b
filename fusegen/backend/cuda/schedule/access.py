"""How the rows of a program lie to vectors, and what a thread holds of them."""

from __future__ import annotations

from fusegen.backend.cuda.schedule.cuda import MAX_ITEMS, MAX_WIDTH, LoadMode
from fusegen.backend.cuda.schedule.launch import widest_vector
from fusegen.backend.problem import Problem
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Kernel, Program, Sweep

_SHIFTED = 8
"""Vectors of a row from which on reading around them is faster: the first and the last of a row
have elements one by one, which the others of their warp wait for."""


def words(kernel: Kernel, sweep: Sweep, width: int) -> int:
    """Registers for one vector of every array that a sweep reads; half for one that it writes."""
    read = sum(kernel.param(n).dtype.itemsize for n in sweep.reads)
    written = sum(kernel.param(s.param).dtype.itemsize for s in sweep.element_stores)
    return -(-(2 * read + written) * width // 8)


def check_chunk(chunk: int | None) -> None:
    if chunk is not None and (chunk < 1 or chunk > MAX_ITEMS or chunk & (chunk - 1)):
        raise ArgumentError(
            f"chunk={chunk} is not possible on a GPU",
            why=f"A thread's chunk is a power of two, 1 to {MAX_ITEMS}: the elements it holds.",
            fix="Leave chunk out, or use 1 for the online form one element at a time.",
        )


def access(
    program: Program, problem: Problem, n_cols: int, chunk: int | None
) -> tuple[int, LoadMode]:
    """Elements per vector, and how rows lie to vectors."""
    # Arrays between kernels are always aligned, so they share a phase with aligned rows only.
    between = any(p.shape == "element" for p in program.workspace)
    apart = not problem.in_phase or (between and not problem.aligned)
    width = min(widest_vector(program), chunk or MAX_WIDTH)
    whole = problem.aligned and not apart and n_cols % width == 0
    if width > 1 and not whole and any(s.monoid.ordered for s in program.sweeps):
        return 1, "scalar"  # edges would be merged out of order
    if width > 1 and not whole and any(k.sweeps and not k.elements for k in program.kernels):
        return 1, "scalar"  # what has no row in memory has no edges of one
    if apart:
        shifts = width > 1 and n_cols >= _SHIFTED * width and _shifts(program, problem)
        return (width, "shifted") if shifts else (1, "scalar")
    return width, "aligned" if whole or width == 1 else "peeled"


def _shifts(program: Program, problem: Problem) -> bool:
    """Can vectors be those of one array's boundaries? All that is written must have them, and
    arrays between kernels have their own; lists read single vectors again."""
    results = {p.name for p in program.outputs}
    for k in program.kernels:
        written = [p.name for p in k.elements if p.output]
        if len(written) > 1 and not (problem.written_in_phase and results.issuperset(written)):
            return False
    return not any(s.monoid.lists for s in program.sweeps)
