"""What loads of rows leave in caches: rows that go by once and do not fit L2 leave it first."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.cuda_cases import Case
from support.emulated import emulated
from support.strip_cases import StripCase

import fusegen as fg
from fusegen import library
from fusegen.backend.cuda.export import classes
from fusegen.backend.cuda.schedule.bands import Rows, band_schedules
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Ahead, Noted, Registers
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.strips import strip_candidates
from fusegen.backend.emit.headers import include_dir
from fusegen.backend.target import CUDA_TARGETS

GPU = CUDA_TARGETS["sm_90"]
COLUMNS = 20_000
FIT, MANY = (int(part * GPU.l2_bytes / COLUMNS / 4) for part in (0.7, 0.8))  # rows of float32


@fg.pipeline
def greatest(x):
    return fg.max(x)


@fg.pipeline
def spread(x):
    """Two sweeps over x that no state makes one."""
    return fg.sum(fg.tanh(x - fg.mean(x)))


@fg.pipeline
def doubled(x):
    return x * 2


@fg.pipeline
def weighed(x, w: fg.PerColumn):
    return fg.max(x * w)


@fg.pipeline
def greatest_of_two(x, y):
    return fg.max(x + y)


@fg.pipeline
def taken(x, y):
    """Of y a few elements are read."""
    values, columns = fg.topk(x, 8)
    return values, fg.take(y, columns)


@fg.pipeline
def statistics(x):
    y = fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x)))
    return fg.logsumexp(x), fg.sum(y * x), fg.var(x), fg.argmax(x)


def case_of(
    pipeline: Any, n_rows: int = 1, n_cols: int = COLUMNS, dtype: str = "float32",
    second: str = "", **constants: int
) -> Case:
    rng = np.random.default_rng(n_cols)
    shapes, types = {"w": (n_cols,)}, {"y": second or dtype}
    inputs = {n: (rng.standard_normal(shapes.get(n, (n_rows, n_cols))) * 9).astype(
        types.get(n, dtype)) for n in pipeline.signature.arrays}
    return Case(pipeline, inputs, n_rows, n_cols, constants)


def offered(case: Case, n_rows: int | None, arch: str = "sm_90") -> tuple[CudaSchedule, ...]:
    work = case.work(n_rows=n_rows, arch=arch)
    problem = replace(work.problem, n_rows=n_rows)
    return tuple(c.schedule for c in candidates(work.program, problem, CUDA_TARGETS[arch]))


def goes_by(one: CudaSchedule) -> bool:
    """From memory to registers; what is copied to shared memory does not ask for it."""
    return not one.home.of_threads and not one.home.stages and one.lists == "streamed"


@pytest.mark.parametrize("case", [
    case_of(greatest), case_of(statistics), case_of(weighed), case_of(library.topk, k=1),
    case_of(library.topk, k=100)], ids=lambda case: case.pipeline.__name__)
def test_rows_that_go_by_leave_l2_first_where_they_do_not_fit(case: Case) -> None:
    for n_rows, caching in ((MANY, "first out"), (FIT, "kept"), (None, "kept")):
        found = offered(case, n_rows)
        by = [one for one in found if goes_by(one)]
        assert by
        assert {one.caching for one in by} == {caching}
        assert not any(one.caching == "first out" for one in found if not goes_by(one))


@pytest.mark.parametrize("case", [case_of(spread), case_of(doubled), case_of(library.softmax)],
                         ids=lambda case: case.pipeline.__name__)
def test_what_is_read_again_or_written_stays_in_l2(case: Case) -> None:
    assert not any(one.caching == "first out" for one in offered(case, MANY))


def told(found: tuple[CudaSchedule, ...]) -> bool:
    return any(one.caching == "first out" for one in found)


def test_all_that_is_streamed_counts_and_nothing_else() -> None:
    """Two arrays of which neither is too much; one that is, beside one of which few are taken."""
    assert told(offered(case_of(greatest_of_two), MANY * 2 // 3))
    assert not told(offered(case_of(greatest_of_two), FIT // 2))
    assert not told(offered(case_of(taken), FIT))
    assert told(offered(case_of(taken), MANY))


def test_no_kernel_of_several_that_read_the_same_rows_is_told() -> None:
    work = case_of(library.logsumexp).work(form="unfused", n_rows=MANY)
    assert len(work.program.kernels) > 1
    assert not told(tuple(c.schedule for c in candidates(work.program, work.problem, GPU)))


def test_narrow_vectors_are_not_said_to_go_past_l1() -> None:
    for dtype, caching in (("int8", "kept"), ("float16", "past L1")):
        found = offered(case_of(greatest, n_cols=512, dtype=dtype), 100_000)
        assert {one.caching for one in found if one.home == Registers()} == {caching}


def test_what_is_shifted_is_kept() -> None:
    work = case_of(greatest_of_two, n_cols=COLUMNS + 1).work(
        n_rows=10 * MANY, aligned=False, in_phase=False)
    found = [c.schedule for c in candidates(work.program, work.problem, GPU)]
    assert {"shifted"} <= {one.load for one in found}
    assert {one.caching for one in found} == {"kept"}


@pytest.mark.long
def test_sizes_that_stand_for_others_say_nothing() -> None:
    """A choice for any number of rows, and those of exported libraries."""
    long = case_of(greatest, n_cols=40_000_000)
    work = long.work(n_rows=1)
    assert told(tuple(c.schedule for c in candidates(work.program, work.problem, GPU)))
    for change in ({"any_rows": True}, {"typical": True}):
        problem = replace(work.problem, **change)
        assert not told(tuple(c.schedule for c in candidates(work.program, problem, GPU)))
    assert not told(tuple(one.schedule(work.typed, GPU) for one in classes(())))


def test_bands_are_read_as_shared_memory_is() -> None:
    """Whatever they are made of: a load from memory that finds shared memory is an error."""
    work = case_of(greatest, n_cols=48).work(n_rows=100_000)
    base = replace(work.schedule, caching="first out")
    found = [*band_schedules(work.program, base, Rows.of(work.program, work.problem, 48))]
    assert found
    assert {one.caching for one in found} == {"kept"}


@pytest.mark.parametrize(("k", "n_rows"), [(129, MANY), (100, 8 * GPU.multiprocessors + 1)])
def test_long_lists_and_lists_of_many_rows_keep_them(k: int, n_rows: int) -> None:
    found = offered(case_of(library.topk, k=k), n_rows)
    assert {one.caching for one in found if goes_by(one)} == {"kept"}


def test_gpus_without_policies_keep_rows() -> None:
    assert {one.caching for one in offered(case_of(greatest), 10 * MANY, "sm_75")
            if goes_by(one)} == {"kept"}


def test_what_all_rows_share_is_kept() -> None:
    case = case_of(weighed)
    work = case.work(n_rows=MANY)
    one = next(s for s in offered(case, MANY) if goes_by(s))
    source = work.scheduled(one).source
    assert "load_items<kFirstOut>(x_items" in source
    assert re.search(r"load_\w+\(w_items", source)


LISTED = [  # pipelines, types, what is asked of schedules
    (greatest, {}, "float16", lambda one: True),
    (greatest_of_two, {"second": "float16"}, "float32", lambda one: True),  # vectors of 32 bytes
    (greatest_of_two, {"second": "int8"}, "float32", lambda one: True),  # and of 8
    (greatest_of_two, {"second": "int8"}, "float64", lambda one: True),
    (statistics, {}, "float16", lambda one: isinstance(one.home, Ahead)),
    (library.topk, {"k": 1}, "float32", lambda one: isinstance(one.home, Noted)),
    (library.topk, {"k": 40}, "float32", lambda one: True),
    (library.softmax_topk, {"k": 40}, "float16", lambda one: True),
]


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("pipeline", "constants", "dtype", "asked"), LISTED)
def test_results_are_the_same(pipeline: Any, constants: Any, dtype: str, asked: Any) -> None:
    case = case_of(pipeline, 2, 9001, dtype, **constants)
    one = next(s for s in offered(case, 20 * MANY) if goes_by(s) and asked(s))
    one = replace(one, caching="first out")
    source = case.work(n_rows=20 * MANY).scheduled(one).source
    assert "kFirstOut>(" in source
    assert "createpolicy.fractional.L2::evict_first.b64" in source
    for shift in (0, 3):
        load = "peeled" if shift else one.load
        both = [case.emulate(schedule=replace(one, caching=caching, load=load), shift=shift)
                for caching in ("first out", "kept")]
        for got, want in zip(*both, strict=True):
            assert got.tobytes() == want.tobytes()


@emulated
def test_rows_side_by_side() -> None:
    case = case_of(greatest, 64, 300)
    work = case.work(n_rows=64)
    for columns, caching in ((COLUMNS * MANY // 64, "first out"), (COLUMNS * FIT // 64, "kept")):
        problem = replace(work.problem, n_cols=columns, inner=64)
        found = strip_candidates(work.program, problem, GPU)
        assert {c.schedule.caching for c in found} == {caching}
    both = [StripCase(case, 1).emulate(pick=lambda found, caching=caching: replace(
        found[0], caching=caching)) for caching in ("first out", "kept")]
    for got, want in zip(*both, strict=True):
        assert got.tobytes() == want.tobytes()


def test_copies_say_nothing_to_caches() -> None:
    """A policy of cp.async that the compiler knows is lost on the way (CUDA 12.9)."""
    texts = [p.read_text() for p in include_dir().rglob("*.cuh")]
    assert any("cp.async.cg" in text for text in texts)
    assert not any(re.search(r"cp\.async\.c[ag][^;]*cache_hint", text) for text in texts)
