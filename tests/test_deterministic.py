"""deterministic=True: a row's bits depend on its length and place, not on the number of rows."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import emulated, fake_gpu, fake_torch
from support.cuda_cases import Case, library_case
from support.emulated import EMULATED
from support.fake_cupy import array
from test_cuda_schedules import chip

import fusegen as fg
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.levels import Cluster, Grid, Team
from fusegen.backend.cuda.schedule.select import candidates, select_cuda
from fusegen.backend.target import CUDA_TARGETS
from fusegen.ir.errors import ArgumentError

pytestmark = EMULATED

NAMES = ("softmax", "logsumexp", "layer_norm", "var_mean")
DTYPES = ("float32", "bfloat16")


def choice(case: Case, arch: str, n_rows: int | None) -> CudaSchedule:
    work = case.work(arch=arch, n_rows=1)
    problem = replace(work.problem, n_rows=n_rows, any_rows=True)
    return select_cuda(work.result("lower"), problem, CUDA_TARGETS[arch])


def rows_of(case: Case, start: int, stop: int) -> Case:
    inputs = {n: a[start:stop] if a.ndim == 2 else a for n, a in case.inputs.items()}
    return replace(case, inputs=inputs, n_rows=stop - start)


def bits(got: tuple[np.ndarray, ...]) -> list[bytes]:
    return [g.tobytes() for g in got]


# ---- the choice ----


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*NAMES, "topk", "argmax", "cross_entropy"])
def test_the_choice_is_one_for_any_number_of_rows(name: str, dtype: str) -> None:
    """On every GPU, of half of the lengths each, in turn."""
    for at, n_cols in enumerate((96, 1000, 4096, 25_000, 129_024, 1 << 20)):
        case = library_case(name, 1, n_cols, dtype)
        for arch in [*CUDA_TARGETS][(at + len(name)) % 2::2]:
            found = {choice(case, arch, n) for n in (None, 1, 3, 66, 200, 100_000)}
            assert len(found) == 1, (arch, n_cols)


@pytest.mark.long
def test_few_long_rows_are_not_left_to_one_block_each() -> None:
    for name in ("logsumexp", "softmax", "topk"):
        for arch in ("sm_80", "sm_90"):
            case = library_case(name, 1, 1 << 20)
            assert choice(case, arch, 1).blocks >= 8


def test_many_rows_do_not_pay_much() -> None:
    """By the prices themselves: at most a quarter beside the choice that knows of many rows."""
    for name in NAMES:
        for n_cols in (1000, 4096, 25_000, 129_024):
            work = library_case(name, 1, n_cols).work(n_rows=1)
            target = CUDA_TARGETS["sm_90"]
            many = candidates(work.result("lower"), replace(work.problem, n_rows=None), target)
            prices = {c.schedule: c.price.total for c in many}
            one = choice(library_case(name, 1, n_cols), "sm_90", 1)
            assert prices.get(one, many[0].price.total) <= 1.25 * many[0].price.total


# ---- bits, whatever the schedule ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("arch", "n_cols"), [("sm_90", 96), ("sm_90", 2048), ("sm_90", 25_000),
                                              ("sm_80", 25_000)])
def test_the_same_bits_alone_and_among_others(
    name: str, dtype: str, arch: str, n_cols: int
) -> None:
    whole = library_case(name, 200 if n_cols < 1000 else 4, n_cols, dtype)
    schedule = choice(whole, arch, None)
    every = whole.emulate(arch=arch, schedule=schedule)
    last = whole.n_rows - 1
    for start, stop in ((0, 1), (last, last + 1), (1, 4)):
        part = rows_of(whole, start, stop).emulate(arch=arch, schedule=schedule, seed=stop)
        assert bits(part) == bits(tuple(e[start:stop] for e in every))


@pytest.mark.parametrize("team", [Grid(2), Grid(3), Cluster(2)])
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_steady_teams_may_be_few_or_many(
    monkeypatch: pytest.MonkeyPatch, name: str, team: Team
) -> None:
    """Which team takes a row, and what it took before, leaves no trace."""
    case = library_case(name, 5, 8192)
    schedule = chip(case, team)
    found = []
    for teams in (1, 2, 3, 5):
        monkeypatch.setattr(emulated, "RESIDENT_TEAMS", teams)
        found.append(bits(case.emulate(schedule=schedule)))
    found += [bits(tuple(np.concatenate([a, b]) for a, b in zip(
        rows_of(case, 0, 2).emulate(schedule=schedule),
        rows_of(case, 2, 5).emulate(schedule=schedule), strict=True)))]
    assert all(f == found[0] for f in found)


# ---- calls ----


def pieces(given: Any, *more: Any, call: Any) -> list[bytes]:
    got = call(given, *more)
    got = got if isinstance(got, tuple) else (got,)
    return [np.ascontiguousarray(g.get()).tobytes() for g in got]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_calls_give_the_same_bits_for_one_row_and_for_200(
    gpu: fake_gpu.Gpu, name: str, dtype: str
) -> None:
    p = fg.Pipeline(getattr(fg.library, name).fn)
    x = np.random.default_rng(0).standard_normal((200, 1024))
    x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)

    def given(a: np.ndarray) -> Any:
        if dtype == "bfloat16":
            return fake_torch.tensor(a.view(np.int16)).view(sys.modules["torch"].bfloat16)
        return array(a)

    compiled = p.compile(given(x), deterministic=True)
    for call in (lambda a: p(a, deterministic=True), compiled):
        every = pieces(given(x), call=call)
        for start, stop in ((0, 1), (199, 200), (50, 53), (0, 3)):
            for _ in range(2):  # looked at in full, and remembered
                for e, part in zip(every, pieces(given(x[start:stop]), call=call), strict=True):
                    size = len(e) // 200
                    assert part == e[start * size : stop * size]


@pytest.mark.parametrize("n_cols", [1025, 4098])
@pytest.mark.parametrize("name", NAMES)
def test_rows_off_alignment_depend_on_where_they_begin(
    gpu: fake_gpu.Gpu, name: str, n_cols: int
) -> None:
    """Rows 0, 4 and 8 begin on boundaries: there they are like a row that is alone."""
    p = fg.Pipeline(getattr(fg.library, name).fn)
    x = np.random.default_rng(0).standard_normal((9, n_cols)).astype("f4")

    def call(a: Any) -> Any:
        return p(a, deterministic=True)

    every = pieces(array(x), call=call)
    for row in (0, 4, 8):
        for e, part in zip(every, pieces(array(x[row : row + 1]), call=call), strict=True):
            size = len(e) // 9
            assert part == e[row * size : (row + 1) * size]


def test_without_it_few_rows_are_cut_up(gpu: fake_gpu.Gpu) -> None:
    """The choice is a part of what is remembered: the two do not mix."""
    p = fg.Pipeline(fg.library.logsumexp.fn)
    x = array(np.random.default_rng(0).standard_normal((1, 60_000)).astype("f4"))
    seen = []
    for deterministic in (False, True, False, True):
        p(x, deterministic=deterministic)
        seen.append((gpu.launched[-1]["grid"], gpu.launched[-1]["threads"]))
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]
    assert p.compile(x).schedule != p.compile(x, deterministic=True).schedule


def test_it_is_true_or_false(gpu: fake_gpu.Gpu) -> None:
    x = array(np.ones((2, 8), "f4"))
    for call in (fg.library.softmax, fg.library.softmax.compile):
        with pytest.raises(ArgumentError, match="True or False"):
            call(x, deterministic="yes")
    with pytest.raises(ArgumentError, match="True or False"):
        fg.library.softmax.explain(deterministic=1)


def test_the_source_says_what_compiling_gives() -> None:
    p, target = fg.library.softmax, CUDA_TARGETS["sm_90"]
    work = p.work(target="sm_90", n_cols=25_000, deterministic=True)
    assert work.schedule == select_cuda(work.result("lower"), work.problem, target)
    assert work.schedule.shape in p.source("sm_90", n_cols=25_000, deterministic=True)
    spec = fg.Spec((7, 25_000))
    assert p.compile(spec, target="sm_90", deterministic=True).schedule == work.schedule


@pytest.mark.parametrize(("n_rows", "n_cols"), [(200, 1000), (7, 700_001)])
@pytest.mark.parametrize("name", NAMES)
def test_on_a_cpu_it_changes_nothing(name: str, n_rows: int, n_cols: int) -> None:
    """There the tree depends on the length alone, whoever asks."""
    p = getattr(fg.library, name)
    x = np.random.default_rng(0).standard_normal((n_rows, n_cols)).astype("f4")
    whole = p(x, deterministic=True)
    whole = whole if isinstance(whole, tuple) else (whole,)
    for start, stop in ((0, 1), (n_rows - 1, n_rows), (3, 6)):
        for call in (p, lambda a: p(a, deterministic=True)):
            part = call(x[start:stop].copy())
            part = part if isinstance(part, tuple) else (part,)
            assert bits(part) == bits(tuple(w[start:stop] for w in whole))


# ---- its benchmark ----


def test_the_benchmark_compares_few_rows_and_many() -> None:
    import determinism

    every = list(determinism.cells(False))
    assert len(set(every)) == len(every)
    assert {c.few for c in determinism.cells(True)} == {True, False}
    for c in every:
        assert (2 * c.rows <= 132) == c.few
        assert c.cols % 8 == 0
    found = [{**vars(c), "ratio": 4.0 if c.few and c.rows == 1 else 1.0} for c in every]
    text = determinism.summary(found)
    assert "few rows: 1.414 times" in text
    assert "at worst 4.00 (logsumexp 1x1024 float32)" in text
    assert "many rows: 1.000" in text


@pytest.mark.parametrize("good", [True, False])
def test_the_benchmark_sees_bits(good: bool) -> None:
    import determinism

    torch = pytest.importorskip("torch")
    x = torch.randn(9, 40)
    noise = 0.0 if good else 1e-7
    assert determinism.same_bits(lambda a: a.sum(-1) + noise * len(a), x) == good
