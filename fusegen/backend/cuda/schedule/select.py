"""Which schedule a program gets on a GPU: every candidate with its price, the cheapest first.

The same program, problem and target give the same schedule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from fusegen.backend.cuda.schedule.access import check_chunk
from fusegen.backend.cuda.schedule.candidate import Candidate
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, Figures
from fusegen.backend.cuda.schedule.instructions import said
from fusegen.backend.cuda.schedule.menu import Menu
from fusegen.backend.cuda.schedule.states import of_states, state_candidates
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.backend.cuda.schedule.work import Price
from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget
from fusegen.ir.kernel import Program

_ROWS = (("one row", 1, 1), ("16 rows", 16, 1), ("many rows³", None, 3))  # one choice for all


def select_cuda(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None = None
) -> CudaSchedule:
    """The cheapest candidate. Raises ArgumentError for an impossible chunk."""
    return candidates(program, problem, target, chunk)[0].schedule


def candidates(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None = None,
    figures: Figures = FIGURES,
) -> tuple[Candidate, ...]:
    """Every schedule worth a thought, cheapest first."""
    check_chunk(chunk)
    if problem.inner is not None:
        return strip_candidates(program, problem, target, chunk, figures)
    if of_states(program):
        return state_candidates(program, problem, target)
    if problem.any_rows:
        return _for_any_rows(program, problem, target, chunk)
    menu = Menu(program, problem, target, chunk, figures)
    found = {one: Candidate(one, menu.price(one)) for one in menu.fitting()}
    best, *others = _sorted(found.values())
    return (replace(best, note=said(program, best.schedule, menu.n_cols)), *others)


def _for_any_rows(
    program: Program, problem: Problem, target: CudaTarget, chunk: int | None
) -> tuple[Candidate, ...]:
    """Everything offered for few rows or for many, priced by how many times slower than the best
    it is for each. Many rows count most: time is lost where there is much to do."""
    menus = [Menu(program, replace(problem, n_rows=n, any_rows=False, typical=True), target, chunk)
             for _, n, _ in _ROWS]
    offered = tuple(dict.fromkeys(one for menu in menus for one in menu.fitting()))
    regrets: list[list[tuple[str, float]]] = []  # for each number of rows, of every schedule
    for (name, _, weight), menu in zip(_ROWS, menus, strict=True):
        prices = [menu.price(one).total for one in offered]
        least = min(prices)
        regrets.append([(name, (price / least) ** weight) for price in prices])
    return _sorted(Candidate(one, Price(all_rows, adds=False))
                   for one, all_rows in zip(offered, zip(*regrets, strict=True), strict=True))


def _sorted(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """By price, and by `order` where that is the same, which takes far longer to say."""
    cost, order = attrgetter("price.total"), attrgetter("schedule.order")
    groups = (list(same) for _, same in groupby(sorted(found, key=cost), key=cost))
    return tuple(c for g in groups for c in (sorted(g, key=order) if g[1:] else g))
