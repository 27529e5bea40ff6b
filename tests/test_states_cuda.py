"""States on GPUs: the roles' own kernels, run on the executor through the public face, and their
sources through NVRTC."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import fake_cupy, nvrtc
from support import state_cases as cases
from support.emulated import EmulatedExecutable, emulated
from support.pairs import pairwise

import fusegen as fg
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.compile.roles import MERGED, STATES, layout_of
from fusegen.ir.forms import Role
from fusegen.pipeline.states.tables import fields_in

compiles = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
TEXTS = {**cases.TEXTS, "ends": cases.ends}


def without_states(x):
    m = fg.mean(x)
    return fg.sum(fg.where(x > m, fg.exp(x), 0.0))


def on_gpu(array: np.ndarray) -> Any:
    return fake_cupy.array(np.ascontiguousarray(array))


def moved(states: fg.States, place: Any) -> fg.States:
    """The same bytes elsewhere."""
    return replace(states, array=place(cases.host(states.array)))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("name", TEXTS)
def test_gpus_make_the_states_that_hosts_make(name: str, gpu: Any) -> None:
    """Pieces of every length, also none and fewer columns than a list has entries."""
    p, rng = fg.pipeline(TEXTS[name]), np.random.default_rng(3)
    given = cases.arguments(name, rng.normal(1, 3, (5, 300)).astype("f4"))
    cuts = [0, 2, 130, 130, 259, 300]
    ours, theirs = cases.pieces(p, given, cuts, on_gpu), cases.pieces(p, given, cuts)
    for a, b in zip(ours, theirs, strict=True):
        assert isinstance(a.array, fake_cupy.Array)
        cases.same_states(a, b)
    whole = fg.merge(p, *ours)
    cases.same_states(whole, fg.merge(p, *theirs))
    cases.near(p.finish(whole), p.reference(*given))
    if name in cases.TEXTS:
        cases.near(p.finish(cases.merged_anyhow(p, ours, rng)), p.reference(*given))
    back = fg.merge(p, moved(ours[0], np.asarray), *theirs[1:])  # from one to the other
    cases.same_states(back, whole)
    cases.near(p.finish(moved(back, on_gpu)), p.reference(*given))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("name", cases.HARD_TEXTS)
def test_hard_rows(name: str, gpu: Any) -> None:
    p, x, rng = fg.pipeline(TEXTS[name]), cases.hard_rows(), np.random.default_rng(2)
    with np.errstate(all="ignore"):
        want = p(x)
        for cuts in ([0, 8], [0, 1, 4, 8], [0, 0, 5, 7, 8]):
            ours = cases.pieces(p, [x], cuts, on_gpu)
            cases.near(p.finish(cases.merged_anyhow(p, ours, rng)), want)
            theirs = [moved(s, np.asarray) for s in ours]  # sums about an infinity may differ
            cases.near(p.finish(cases.merged_anyhow(p, theirs, rng)), want)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("count", [1, 2, 40])
def test_any_number_of_states_merge_at_once(count: int, gpu: Any) -> None:
    """Lanes of a warp share many; those that keep an order keep it."""
    x = np.random.default_rng(count).normal(0, 3, (37, 2 * count)).astype("f4")
    cuts = [*range(0, 2 * count + 1, 2)]
    for name in ("softmax_topk", "var_mean", "places", "ends"):
        p = fg.pipeline(TEXTS[name])
        parts = cases.pieces(p, cases.arguments(name, x), cuts)
        before = len(gpu.launched)
        whole = fg.merge(p, *(moved(s, on_gpu) for s in parts))
        assert [n["symbol"] for n in gpu.launched[before:]] == [f"{p.name}_merge_kernel"]
        cases.same_states(whole, fg.merge(p, *parts))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("k", [1, 9, 40, 130])
def test_lists_of_any_length(k: int, gpu: Any) -> None:
    x = np.round(np.random.default_rng(k).normal(0, 9, (3, 400))).astype("f4")  # ties
    p = fg.pipeline(TEXTS["softmax_topk"])
    parts = cases.pieces(p, [x], [0, 5, 200, 201, 400], on_gpu, k=k)
    values, at = p.finish(cases.merged_anyhow(p, parts, np.random.default_rng(k)))
    want = p.reference(x, k=k)
    np.testing.assert_allclose(values.get(), want[0], rtol=2e-6)
    np.testing.assert_array_equal(at.get(), want[1])


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
def test_types(dtype: str, gpu: Any) -> None:
    x = np.random.default_rng(0).normal(0, 20, (3, 40)).astype(dtype)
    for name in ("topk", "argmax"):
        p = fg.pipeline(TEXTS[name])
        states = fg.merge(p, *reversed(cases.pieces(p, [x], [0, 13, 40], on_gpu)))
        for g, w in zip(cases.flat(p.finish(states)), cases.flat(p(x)), strict=True):
            np.testing.assert_array_equal(g, w)
            assert g.dtype == w.dtype


@emulated
def test_rows_of_any_shape_and_none(gpu: Any) -> None:
    p, x = fg.pipeline(TEXTS["argmax"]), np.random.default_rng(1).normal(0, 1, (2, 3, 50))
    a, b = cases.pieces(p, [x.astype("f4")], [0, 20, 50], on_gpu)
    assert a.array.shape == (2, 3, a.layout.n_bytes)
    np.testing.assert_array_equal(p.finish(fg.merge(p, b, a)).get(), x.argmax(-1))
    none, more = (p.states(on_gpu(np.ones((0, 4), np.float32)), at=i) for i in (0, 4))
    assert p.finish(fg.merge(p, none, more)).shape == (0,)


# ---- every schedule ----


@emulated
@pytest.mark.parametrize("name", ["softmax_topk", "var_mean", "places"])
@pytest.mark.parametrize(("n_rows", "n_cols"), [(1, 6000), (40, 96), (2, 9000)])
def test_every_kind_of_schedule_leaves_the_same_states(
    name: str, n_rows: int, n_cols: int
) -> None:
    p = fg.pipeline(TEXTS[name])
    x = np.random.default_rng(n_cols).normal(1, 3, (n_rows, n_cols)).astype("f4")
    assert _same_as_of_hosts(p, x, most=4) > (n_cols > 96)


def _same_as_of_hosts(p: fg.Pipeline, x: np.ndarray, most: int, **constants: Any) -> int:
    """How many kinds of schedules were tried, the cheapest of each."""
    n_rows, n_cols = x.shape
    want = p.states(x, at=70, **constants)
    work = p.work(role="fold", target="sm_90", n_rows=n_rows, n_cols=n_cols, **constants)
    found = candidates(work.program, work.problem, work.target)
    kinds = {(c.kind, c.schedule.lists): c.schedule for c in reversed(found)}
    for one in [*kinds.values()][-most:]:
        run = EmulatedExecutable(work.program, one, work.scheduled(one).source)
        states = np.zeros((n_rows, want.layout.n_bytes), np.uint8)
        fields = fields_in(states, work.program.outputs, want.layout)
        run({"x": x, **fields}, n_rows, n_cols, first_column=70)
        cases.same_states(replace(want, array=states), want)
    return min(most, len(kinds))


@emulated
@pytest.mark.parametrize(("k", "n_rows", "n_cols"), [
    (5, 3, 3), (40, 2, 30), (9, 3, 7), (64, 1, 1), (100, 2, 64), (300, 1, 264), (300, 1, 2),
    (2500, 1, 2000),
])
def test_pieces_shorter_than_their_lists(k: int, n_rows: int, n_cols: int) -> None:
    """However lists are kept: nothing waits for entries that do not come, or reads them."""
    p = fg.pipeline(TEXTS["softmax_topk"])
    x = np.random.default_rng(k).normal(1, 3, (n_rows, n_cols)).astype("f4")
    _same_as_of_hosts(p, x, most=3, k=k)


@emulated
def test_merges_write_their_rows_alone() -> None:
    """Lanes of the last warp that have no row, under the executor's checks."""
    p = fg.pipeline(TEXTS["many"])
    x = np.random.default_rng(0).normal(0, 1, (3, 24)).astype("f4")
    parts = cases.pieces(p, cases.arguments("many", x), [0, 9, 24])
    work = p.work(role="merge", target="sm_90", n_rows=3, n_cols=2)
    run = EmulatedExecutable(work.program, work.schedule, work.source)
    merged = np.zeros_like(parts[0].array)
    run({STATES: np.stack([s.array for s in parts]), MERGED: merged}, 3, 2)
    found = moved(fg.merge(p, *parts), lambda _: merged)
    cases.same_states(found, fg.merge(p, *parts))
    assert layout_of(work.program) == found.layout


# ---- sources ----


@compiles
@pytest.mark.parametrize(("name", "role", "arch", "n_cols"), pairwise(
    [*TEXTS], ["fold", "merge", "finish"], ["sm_80", "sm_90", "sm_100"], [5, 25_000]))
def test_sources_compile(name: str, role: Role, arch: str, n_cols: int) -> None:
    work = fg.pipeline(TEXTS[name]).work(role=role, target=arch, n_cols=n_cols, n_rows=4000)
    for report in nvrtc.compile_for(work.source, arch).reports:
        assert report.spill_bytes <= 128, report
        assert role == "fold" or report.registers <= 64, report


def test_sources_say_their_role() -> None:
    p = fg.library.softmax_topk
    for role, says in (("fold", "rows → states"), ("merge", "states → states"),
                       ("finish", "states → results")):
        for target in ("sm_90", "x86-64-v3"):
            text = p.source(target, role=role, n_cols=1000)
            assert text.splitlines()[0].startswith(f"// softmax_topk, {role}: {says}")
            assert f"softmax_topk_{role}_" in text
        assert says in str(p.explain(target="sm_90", role=role))
        with pytest.raises(fg.ArgumentError, match="no launcher"):
            p.source("sm_90", role=role, host=True)
    with pytest.raises(fg.ArgumentError, match="unknown role 'fould'"):
        p.source("sm_90", role="fould")
    with pytest.raises(fg.PipelineError, match="has no states"):
        fg.pipeline(without_states).source("sm_90", role="fold")
