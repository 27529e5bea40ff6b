"""Prices: every figure in one table, monotone where physics is, fitted from measured times."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import prices
import pytest
from support.short_rows import case_of

from fusegen.backend.cuda.schedule.figures import FIGURES
from fusegen.backend.cuda.schedule.fold_prices import price_of_folds
from fusegen.backend.cuda.schedule.price import price_of
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.work import Work

SHAPES = [("softmax", 4000, 1000), ("softmax", 300, 129_024), ("logsumexp", 4000, 25_000),
          ("layer_norm", 8192, 4096), ("entropy", 60_000, 300)]


def offered(work, rows, cols, dtype="float32"):
    cell = prices.Cell(work, {}, dtype, rows, cols, "sm_90", {}).compiled.work
    found = candidates(cell.result("lower"), cell.problem, cell.target, None)
    return [c.schedule for c in found]


def test_every_figure_says_what_it_is():
    names = set()
    for name, value, unit, meaning in FIGURES.named():
        assert value > 0, name
        assert unit, name
        assert meaning, name
        names.add(name)
    assert len(names) > 80


def test_figures_are_changed_by_name():
    new = FIGURES.changed({"few.launch": 5.0, "strips.block": 2.0})
    assert (new.few.launch, new.strips.block, new.many) == (5.0, 2.0, FIGURES.many)
    with pytest.raises(TypeError):
        FIGURES.changed({"few.nothing": 1.0})


@pytest.mark.parametrize(("work", "rows", "cols"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_more_rows_take_no_less_time(work, rows, cols, dtype):
    """Of one schedule, within few rows and within many: the two are priced in other units."""
    for one in offered(work, rows, cols, dtype):
        given = Work(rows=1, vectors=cols // one.width, sweeps=2, stores=True, extra=1,
                     vector_bytes=16)
        for few in (True, False):
            before = 0.0
            for n in (1, 2, 3, 5, 8, 16, 33, 66, 67, 100, 132, 133, 264, 500, 1000, 4000, 10**5):
                work_of_n = replace(given, rows=n)
                if work_of_n.few(one.target) is not few:
                    continue
                total = price_of(one, work_of_n).total * (1 if few else n)
                assert total >= before * (1 - 1e-9), (one.describe(), n)
                before = total


@pytest.mark.parametrize(("work", "rows", "cols"), SHAPES)
def test_longer_rows_take_no_less_time(work, rows, cols):
    for one in offered(work, rows, cols):
        for n_rows in (10, 10**5, None):
            before = 0.0
            for vectors in sorted(random.Random(0).sample(range(1, 10**5), 200)):
                given = Work(rows=n_rows, vectors=vectors, sweeps=2, stores=True, extra=1,
                             vector_bytes=16)
                price = price_of(one, given)
                total = price.total if price.adds else price.total * vectors
                assert total >= before * (1 - 1e-9), (one.describe(), n_rows, vectors)
                before = total


def statistics(n_rows, n_cols):
    """Candidates for statistics of bfloat16 rows, with their prices."""
    work = case_of("statistics", 8, n_cols, "bfloat16").work(n_rows=n_rows)
    return candidates(work.result("lower"), work.problem, work.target)


@pytest.mark.long
def test_long_statistics_are_split_where_they_leave_multiprocessors_idle():
    for n_rows, split in ((20, True), (93, True), (5000, False)):
        best, *others = statistics(n_rows, 162_608)
        assert (best.schedule.blocks > 1) is split, n_rows
        assert best.price.adds
        assert all(best.price.total <= c.price.total for c in others)


def test_more_statistics_take_no_less_time():
    ways = {c.schedule for n in (20, 93, 5000) for c in statistics(n, 60_000)}
    work = case_of("statistics", 8, 60_000, "bfloat16").work(n_rows=8)
    program, n_cols = work.result("lower"), 60_000
    for one in ways:
        before = 0.0
        for n in (1, 5, 20, 66, 100, 132, 133, 200, 264, 265, 400, 800, 2000, 10_000):
            given = Work(rows=n, vectors=n_cols // one.width, sweeps=1, stores=False, extra=0,
                         vector_bytes=16)
            total = price_of_folds(one, given, program, n_cols).total
            assert total >= before * (1 - 1e-9), (one.describe(), n)
            before = total


def test_larger_clusters_wait_no_less():
    few, many = FIGURES.few, FIGURES.many
    assert 0 <= many.cluster_2 <= many.cluster_4 <= many.cluster_16
    assert few.block <= few.cluster <= few.grid
    assert many.registers <= many.shared <= many.chip
    assert many.again_l2 <= many.again_l2_few <= many.again


@pytest.mark.long
def test_a_fit_finds_the_figures_that_times_were_made_of():
    """Of a cell whose choice changes with the figure, beside two of which others decide."""
    true = FIGURES.changed({"many.registers": 0.08})
    cells = []
    for work, rows, cols in [("softmax", 4000, 16_000), ("softmax", 300, 129_024),
                             ("logsumexp", 16, 129_024)]:
        plain = prices.Cell(work, {}, "float32", rows, cols, "sm_90", {})
        given = plain.compiled.work
        found = candidates(given.result("lower"), given.problem, given.target, None, true)
        seconds = {c.schedule.describe(): c.price.total for c in found}
        cells.append(replace(plain, seconds=seconds))
    before = prices.mean_log_regret(cells, FIGURES)
    assert before > math.log(1.005)
    assert prices.mean_log_regret(cells, true) == 0
    better = prices.fit(cells, 1)
    assert prices.mean_log_regret(cells, better) < before / 2
