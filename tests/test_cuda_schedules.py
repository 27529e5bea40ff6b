"""Every kind of schedule, whatever its price: the emitted CUDA gives the text's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import short_rows
from support.cuda_cases import Case, assert_close, assert_close_sums, library_case, strided
from support.emulated import EMULATED, RESIDENT_TEAMS, EmulatedExecutable
from support.schedules import kinds_of

import fusegen as fg
from fusegen.backend.arrays.phases import phase
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import MEMORY, Chip, Shared
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Team, Thread, tree
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.backend.cuda.schedule.tiles.scratch import Scratch
from fusegen.backend.target import CUDA_TARGETS

pytestmark = EMULATED

NAMES = ["softmax", "layer_norm", "logsumexp", "var_mean", "cross_entropy"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_cols", [96, 1600, 9000])
def test_every_kind_of_schedule(name: str, n_cols: int) -> None:
    case = library_case(name, 3, n_cols)
    for n_rows in (100_000, 3):
        for schedule in kinds_of(case, True, n_rows).values():
            assert_close(case.emulate(schedule=schedule, seed=1), case.reference(), 3e-6)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "logsumexp", "entropy"])
@pytest.mark.parametrize("n_cols", [95, 1601, 9001])
def test_every_kind_on_rows_off_alignment(name: str, n_cols: int) -> None:
    case = library_case(name, 3, n_cols)
    for schedule in kinds_of(case, False, 100_000).values():
        assert_close(case.emulate(schedule=schedule, seed=2, shift=1), case.reference(), 3e-6)


@fg.pipeline
def softmax_backward(y, dy):
    return y * (dy - fg.sum(y * dy))


@pytest.mark.parametrize("n_cols", [97, 2500])
@pytest.mark.parametrize("name", ["softmax", "backward"])
def test_every_kind_on_rows_out_of_phase(name: str, n_cols: int) -> None:
    """Inputs at other offsets from a boundary than results."""
    case = library_case("softmax", 3, n_cols)
    if name == "backward":
        rng = np.random.default_rng(1)
        case = Case(softmax_backward, {n: rng.standard_normal((3, n_cols)).astype("f4")
                                       for n in ("y", "dy")}, 3, n_cols)
    for n_rows in (100_000, 3):
        for schedule in kinds_of(case, False, n_rows, in_phase=False).values():
            assert schedule.load == (
                "scalar" if schedule.in_warp and schedule.width == 1 else "shifted")
            got = case.emulate(schedule=schedule, shift=1, apart=1, in_phase=False)
            assert_close(got, case.reference(), 3e-6)


@pytest.mark.parametrize(("dtype", "step"), [
    ("bfloat16", 1.6e-2), ("float16", 2e-3), ("float64", 1e-12), ("float32", 3e-6)])
def test_every_offset_of_rows_out_of_phase(dtype: str, step: float) -> None:
    """Rows of an odd length go through all of them."""
    case = library_case("softmax", 17, 601, dtype)
    vector = 16 // case.inputs["x"].itemsize
    for apart in range(1, vector):
        got = case.emulate(apart=apart, in_phase=False)
        assert_close(got, case.reference(), step)


@pytest.mark.parametrize(("dtype", "step"), [
    ("bfloat16", 1.6e-2), ("float16", 2e-3), ("float32", 3e-6)])
def test_every_offset_of_slices_out_of_phase(dtype: str, step: float) -> None:
    """In shared memory: the words around a row's first vector and last are not all of the row."""
    case = library_case("softmax", 2, 9001, dtype)
    slices = {type(s.team): s for s in kinds_of(case, False, 100_000, in_phase=False).values()
              if isinstance(s.home, Shared)}
    assert slices.keys() == {Block, Cluster}
    for schedule in slices.values():
        for apart in range(1, 16 // case.inputs["x"].itemsize):
            got = case.emulate(schedule=schedule, shift=apart % 3, apart=apart, in_phase=False)
            assert_close(got, case.reference(), step)


def test_what_cannot_be_shifted_is_read_element_by_element() -> None:
    """Two results that may be at different offsets; lists, which read single vectors again."""
    rng = np.random.default_rng(2)

    def two(x, y):
        s = x + y
        return s, s / fg.sqrt(fg.mean(s * s))

    def best(x, y):
        return fg.topk(x * y, 3)

    for text in (two, best):
        case = Case(fg.pipeline(text), {n: rng.standard_normal((3, 603)).astype("f4")
                                        for n in ("x", "y")}, 3, 603)
        lies = {"aligned": False, "in_phase": False, "written_in_phase": False}
        assert case.work(**lies).schedule.load == "scalar"
        assert_close(case.emulate(shift=1, apart=1), case.reference(), 3e-6)
    case = Case(fg.pipeline(two), case.inputs, 3, 603)
    assert case.work(aligned=False, in_phase=False).schedule.load == "shifted"
    assert_close(case.emulate(shift=1, apart=1, written=2), case.reference(), 3e-6)


def test_a_row_by_itself_has_no_stride() -> None:
    """Whatever its array's is."""
    whole = np.zeros((2, 4001), "f4")
    for first, wanted in ((0, (True, True, True)), (1, (False, False, True))):
        row = strided(whole, first)[:1, :4000]
        assert phase([row], [strided(whole[:1, :4000], 0)]) == wanted
    assert phase([strided(whole, 0)[:, :4000]], []) == (False, True, True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "var_mean"])
def test_every_kind_of_other_types(name: str, dtype: str) -> None:
    case = library_case(name, 2, 4096, dtype)
    step = {"float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}[dtype]
    for schedule in kinds_of(case, True, 100_000).values():
        assert_close(case.emulate(schedule=schedule), case.reference(), step)


def chip(case: Case, team: Team) -> CudaSchedule:
    """Rows in registers and shared memory, much smaller than any that would be chosen."""
    work = case.work(aligned=True)
    base = next(
        c.schedule for c in candidates(work.result("lower"), work.problem, CUDA_TARGETS["sm_90"])
        if isinstance(c.schedule.home, Shared)
    )
    blocks = getattr(team, "blocks", 1)
    share = -(-(case.n_cols // base.width) // blocks)
    levels = tree(Thread(2, base.width), 64, team, Chip(share - 128))
    return CudaSchedule(target=base.target, levels=levels, load="aligned")


@pytest.mark.parametrize("blocks", [2, 3, 7])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
def test_rows_that_come_in_where_others_leave(name: str, blocks: int) -> None:
    """Several rows for each team, blocks that wait for one another, in any order."""
    case = library_case(name, 5, 8192)
    for seed in (0, 4):
        got = case.emulate(schedule=chip(case, Grid(blocks)), seed=seed)
        assert_close(got, case.reference(), 3e-6)
    if blocks == 2:
        got = case.emulate(schedule=chip(case, Cluster(blocks)), seed=1)
        assert_close(got, case.reference(), 3e-6)


@pytest.mark.parametrize("before", [0, 6, 2**32 - 2])
def test_numbers_of_turns_go_on_from_launch_to_launch(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What launches before have told is never taken for this turn's, also past 2³² turns."""
    kept, made = {}, EmulatedExecutable._scratch

    def scratch(self: EmulatedExecutable, one: Scratch, *rest: Any) -> np.ndarray:
        if one.kind != "tickets":
            return made(self, one, *rest)
        if not kept:
            kept[one.name] = made(self, one, *rest)
            if before:  # each team's two places, of the turns before and of the latest
                latest = np.array([before, before + 1])
                kept[one.name].reshape(RESIDENT_TEAMS, 2, -1)[:] = (
                    latest.astype(np.uint64) << np.uint64(32))[:, None]
        return kept[one.name]

    monkeypatch.setattr(EmulatedExecutable, "_scratch", scratch)
    for seed, n_rows in enumerate((5, 5, 3, 5)):
        case = library_case("softmax", n_rows, 2048, seed=seed)
        got = case.emulate(schedule=chip(case, Grid(3)), seed=seed)
        assert_close(got, case.reference(), 3e-6)


@pytest.mark.parametrize("n_cols", [2048, 2200, 4096])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_what_rows_share_a_chunk_ahead(name: str, n_cols: int) -> None:
    """Whole chunks, rows that end inside one, and more than two chunks of a thread."""
    case = library_case(name, 3, n_cols)
    for blocks in (1, 2):
        base = chip(case, Cluster(blocks) if blocks > 1 else Block(64))
        schedule = base.having(home=Shared(n_cols // 4 // blocks, early=True))
        work = case.work().scheduled(schedule)
        assert "weight_early" in work.source
        assert_close(case.emulate(schedule=schedule, seed=blocks), case.reference(), 3e-6)


@pytest.mark.parametrize(("name", "dtype", "n_cols"), [
    ("softmax", "float32", 4099), ("softmax", "bfloat16", 8207), ("rms_norm", "float16", 8203),
    ("backward", "float32", 4101), ("backward", "bfloat16", 8199), ("softmax", "float64", 2049),
])
def test_rows_with_edges_that_come_in_where_others_leave(
    name: str, dtype: str, n_cols: int
) -> None:
    """Rows of an odd length begin at all offsets, in phase with results or not."""
    case = library_case("softmax" if name == "backward" else name, 5, n_cols, dtype)
    if name == "backward":
        rng = np.random.default_rng(1)
        case = Case(softmax_backward, {n: rng.standard_normal((5, n_cols)).astype(
            case.inputs["x"].dtype) for n in ("y", "dy")}, 5, n_cols)
    step = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 3e-2, "float64": 1e-12}[dtype]
    for apart in (0, 1):
        lies = {"aligned": False, "in_phase": not apart, "n_rows": 100_000}
        schedule = case.work(**lies).schedule
        width = schedule.width
        levels = tree(Thread(2, width), 64, Grid(2), Chip(-(-n_cols // width // 2) - 128))
        small = CudaSchedule(target=schedule.target, levels=levels,
                             load="shifted" if apart else "peeled")
        got = case.emulate(schedule=small, seed=3, shift=3, apart=apart, **lies)
        assert_close_sums(got, case.reference(), step)


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize(("n_cols", "dtype"), [
    (2050, "bfloat16"), (3333, "float16"), (4999, "bfloat16"), (3000, "float32"),
])
def test_rows_that_go_by_a_chunk_ahead(n_cols: int, dtype: str, shift: int) -> None:
    """Whole chunks, part of one, none; in a warp and in blocks of every size."""
    case = short_rows.case_of("statistics", 8, n_cols, dtype)
    work = case.work(n_rows=2500, aligned=False)
    ahead = [c.schedule for c in candidates(work.program, work.problem, work.target)
             if c.schedule.home.next_chunk]
    assert {s.team_threads for s in ahead} >= ({32, 64, 128} if n_cols > 3000 else {32})
    rough = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for schedule in ahead:
        assert_close(case.emulate(schedule=schedule, seed=3, shift=shift), case.reference(), rough)


def test_the_same_bits_in_any_order() -> None:
    case = library_case("softmax", 4, 8192)
    for team in (Grid(3), Cluster(2)):
        schedule = chip(case, team)
        first = case.emulate(schedule=schedule, seed=0)
        for seed in (1, 2):
            for a, b in zip(first, case.emulate(schedule=schedule, seed=seed), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_cols", [4096, 5001])
def test_two_states_of_a_row_that_a_cluster_shares(n_cols: int) -> None:
    """The safe form meets twice: once for the maximum, once for the sum."""
    case = library_case("softmax", 3, n_cols)
    work = case.work(form="safe", n_rows=3, aligned=n_cols % 4 == 0)
    found = [
        c.schedule for c in candidates(work.result("lower"), work.problem, CUDA_TARGETS["sm_90"])
        if c.schedule.clustered and c.schedule.home == MEMORY
    ]
    assert found
    for schedule in found:
        small = schedule.having(team=Cluster(4), threads=64)
        got = case.emulate(schedule=small, form="safe", n_rows=3, seed=3)
        assert_close(got, case.reference(), 3e-6)


# ---- texts that read no element of a row ----


@fg.pipeline
def counted(x, n: fg.PerRow):
    return fg.sum(fg.where(fg.index(x) < n, 1.0, 0.0))


@fg.pipeline
def of_columns(x, n: fg.PerRow, b: fg.PerColumn):
    s = b * n
    return fg.logsumexp(s), fg.argmax(s), fg.sum(b * fg.index(x))


@fg.pipeline
def of_rows(x, n: fg.PerRow):
    return 2 * n


@fg.pipeline
def one_of_columns(x, n: fg.PerRow):
    return fg.topk(fg.index(x) * n, 2)


@fg.pipeline
def counted_first(x, n: fg.PerRow):
    count = fg.sum(fg.where(fg.index(x) < n, 1.0, 0.0))
    return count * fg.max(x), fg.sum(fg.exp(x - count))


def unread(text: fg.Pipeline, n_cols: int, dtype: str = "float32") -> Case:
    rng = np.random.default_rng(n_cols)
    inputs = {"x": rng.standard_normal((3, n_cols)).astype(dtype),
              "n": np.array([1.5, n_cols - 0.5, n_cols + 9], "f4")}
    if "b" in text.signature.arrays:
        inputs["b"] = rng.standard_normal(n_cols).astype("f4") / n_cols
    return Case(text, inputs, 3, n_cols)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("text", [counted, of_columns, of_rows], ids=lambda t: t.name)
@pytest.mark.parametrize("n_cols", [2, 35, 96, 301, 4099])
def test_every_kind_where_no_element_is_read(text: fg.Pipeline, n_cols: int, aligned: bool) -> None:
    """Rows have no edges that anybody sees: all columns count, also behind whole vectors."""
    case = unread(text, n_cols)
    for n_rows in (100_000, 3):
        for schedule in kinds_of(case, aligned and n_cols % 4 == 0, n_rows).values():
            assert not schedule.home.band_rows
            assert_close(case.emulate(schedule=schedule, shift=1), case.reference(), 1e-5)


@pytest.mark.parametrize("form", ["unfused", "safe", "online"])
@pytest.mark.parametrize("text", [counted_first, one_of_columns], ids=lambda t: t.name)
@pytest.mark.parametrize("n_cols", [35, 301, 4099])
def test_forms_where_no_element_is_read(text: fg.Pipeline, n_cols: int, form: str) -> None:
    """By all kernels, or by the first one."""
    case = unread(text, n_cols)
    for n_rows in (100_000, 3):
        assert_close(case.emulate(form=form, n_rows=n_rows), case.reference(), 1e-5)
