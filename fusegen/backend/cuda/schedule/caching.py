"""What loads of rows leave in caches."""

from __future__ import annotations

from typing import Literal

from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget
from fusegen.ir.kernel import Program

Caching = Literal["kept", "past L1", "first out"]
"""kept: as it comes.  past L1: nothing in L1.  first out: what is the first to leave L2."""

IN_WORDS: dict[Caching, str] = {
    "kept": "", "past L1": " past L1", "first out": ", first out of L2",
}
_WHOLE = 16  # bytes of a vector whose loads may leave L1 alone
_KEPT_IN_L2 = 0.75  # of its bytes, about, that another call may find there
_LONGEST, _ROUND = 128, 8  # entries of a list, and rows for each multiprocessor: see _leave_first


def cachings(
    program: Program, problem: Problem, target: CudaTarget, width: int
) -> tuple[Caching, Caching]:
    """Of rows that threads hold, and of rows that go by. width: elements of a vector that is read
    as it lies; 1: none is."""
    if width == 1 or any(s.element_stores for s in program.sweeps):
        return "kept", "kept"
    # Rows that go by keep L1: parts of 32 bytes are wanted by the vectors at both sides of an edge,
    # and lists look at some elements again. Short rows that lanes hold are a little faster past it,
    # but for vectors that have lines in common.
    wide = any(p.shape == "element" and p.dtype.itemsize * width >= _WHOLE for p in program.inputs)
    return ("past L1" if wide else "kept",
            "first out" if _leave_first(program, problem, target) else "kept")


def _leave_first(program: Program, problem: Problem, target: CudaTarget) -> bool:
    """Are rows read once, and more than another call may find in L2? Then they had better leave it
    first: else what other kernels wrote has to go to memory to make room for them (5 to 10 % of the
    time on an H200 whose L2 was full of that). createpolicy: sm_80.

    What compilers have no registers for they read again, but not by loads that say so: long lists
    would save items in memory instead. Lists of many rounds of rows gain nothing, or lose by it.

    Of copies to shared memory (cp.async) nothing is said: compilers keep a policy that they know in
    the register that their addresses have a part in, and lose it (CUDA 12.9, an illegal
    instruction); loads have no such part."""
    read = [p for k in program.kernels for s in k.sweeps for p in map(k.param, s.streams)
            if p.shape == "element"]
    rows, columns = problem.n_rows or 0, problem.n_cols or 0
    lists = [best.k for s in program.sweeps for best in s.monoid.lists]
    if lists and (max(lists) > _LONGEST or rows > _ROUND * target.multiprocessors):
        return False
    size = rows * columns * sum(p.dtype.itemsize for p in read)
    known = not problem.typical and size > _KEPT_IN_L2 * target.l2_bytes
    return known and target.ampere and len(read) == len({p.name for p in read})
