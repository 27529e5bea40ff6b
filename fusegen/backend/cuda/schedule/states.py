"""How merges and finishes run: a row of a few states belongs to a few lanes of a warp.

There is one choice each: a state is small, and what these programs take is the bytes of the states.
"""

from __future__ import annotations

from fusegen.backend.cuda.schedule.candidate import Candidate
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.levels import Lanes, Thread, tree
from fusegen.backend.cuda.schedule.work import Price
from fusegen.backend.problem import Problem
from fusegen.backend.target import WARP, CudaTarget
from fusegen.ir.kernel import Program

_THREADS = 128  # of a block
_STATES_OF_A_LANE = 8  # that are merged one after the other before lanes meet


def of_states(program: Program) -> bool:
    """Does the program take states instead of rows?"""
    return program.role in ("merge", "finish")


def state_candidates(
    program: Program, problem: Problem, target: CudaTarget
) -> tuple[Candidate, ...]:
    """The schedule of a program that takes states."""
    one = _of_lanes(target, _lanes(program, problem))
    return (Candidate(one, Price((("states", 1.0),), adds=False)),)


def meeting_schedule(
    merge: Program, finish: Program | None, ranks: int, target: CudaTarget
) -> CudaSchedule:
    """Of both in one launch: ranks' programs are the same, and so are the rows of their blocks."""
    lanes = [_lanes(one, Problem(dtypes={}, n_cols=ranks)) for one in (merge, finish) if one]
    return _of_lanes(target, max(lanes))


def _of_lanes(target: CudaTarget, lanes: int) -> CudaSchedule:
    return CudaSchedule(target=target, levels=tree(Thread(1, 1), _THREADS, Lanes(lanes)),
                        load="scalar", wide_columns=True, fixed=True)


def _lanes(program: Program, problem: Problem) -> int:
    """One lane; more where a row has many states, or entries, or numbers of vectors, that are each
    a thread's."""
    lists = [p.k for k in program.kernels for p in k.params if p.shape == "list"]
    if program.role == "merge":
        lists = [c.k for s in program.sweeps for c in s.monoid.lists]
        lists += [c.width for s in program.sweeps for c in s.monoid.components]
    states = (problem.n_cols or 1) if program.role == "merge" else 1
    wanted = max([-(-states // _STATES_OF_A_LANE), *lists])
    return min(WARP, 1 << (wanted - 1).bit_length())
