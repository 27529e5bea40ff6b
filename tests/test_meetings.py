"""Ranks that meet in one launch each, through memory that they write to: the protocol, on the
emulator, where the blocks of one launch are the ranks'."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import simt
from support import fake_cupy, fake_torch, nvrtc
from support import state_cases as cases
from support.emulated import emulated
from support.meetings import PATIENCE, TAG, Ranks, meet_of, text_of

import fusegen as fg
from fusegen.backend.cuda.emit import meet as emit
from fusegen.backend.cuda.emit.meet import meet_source
from fusegen.backend.cuda.memory import GPU
from fusegen.backend.symmetric import Joint, Place
from fusegen.compile.roles import layout_of
from fusegen.pipeline.ready import Lesson
from fusegen.pipeline.remembered import Recall
from fusegen.pipeline.remembered import met as known

pytest.importorskip("torch", reason="torch is not installed")
from fusegen.distributed.chained import MeetingStep

TEXTS = {**cases.TEXTS, "ends": cases.ends}
WIDTH = 12  # columns of a rank
compiles = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


def parts_of(
    p: fg.Pipeline, name: str, ranks: int, rows: int, turns: int
) -> tuple[list[list[fg.States]], list[np.ndarray]]:
    """(states by turn and rank; the same bytes by rank, (turns, rows, bytes))."""
    rng = np.random.default_rng(ranks)
    xs = [np.round(rng.normal(1, 3, (rows, ranks * WIDTH)), 1).astype("f4") for _ in range(turns)]
    cuts = [*range(0, ranks * WIDTH + 1, WIDTH)]
    parts = [cases.pieces(p, cases.arguments(name, x), cuts) for x in xs]
    return parts, [np.stack([t[r].array for t in parts]) for r in range(ranks)]


def met(found: Ranks, p: fg.Pipeline, parts: list[list[fg.States]]) -> None:
    """All ranks have the same bits, those of the merge and what is made of it."""
    for turn, states in enumerate(parts):
        whole = fg.merge(p, *states)
        if found.meet.finish is None:
            for merged in found.merged:
                assert merged[turn].tobytes() == found.merged[0][turn].tobytes()
                cases.same_states(replace(whole, array=merged[turn]), whole)
            continue
        for name, want in zip(found.results[0], cases.flat(p.finish(whole)), strict=True):
            first, *others = (results[name][turn] for results in found.results)
            np.testing.assert_allclose(first, want.reshape(first.shape), rtol=2e-5, atol=1e-6)
            assert all(other.tobytes() == first.tobytes() for other in others)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("name", "ranks", "finish", "staged"), [
    *((n, r, True, True) for n, r in zip(TEXTS, itertools.cycle([2, 3, 5]), strict=False)),
    ("many", 3, False, True), ("many", 3, True, False)])
def test_ranks_have_the_results_of_whole_rows(
    name: str, ranks: int, finish: bool, staged: bool
) -> None:
    """Several turns, with ranks at different speeds; then several blocks of each. States that
    shared memory has no room for stay where they came."""
    p, rows, meet = fg.pipeline(TEXTS[name]), 11, None
    with pytest.MonkeyPatch.context() as patch:
        if not staged:
            patch.setattr(emit, "_SHARED_BYTES", 0)
        meet = meet_of(p, ranks, finish=finish)
        text = text_of(meet)
        assert meet.staged == staged
    found = Ranks(meet, rows, text)
    parts, states = parts_of(p, name, ranks, rows, turns=4)
    for seed in (0, 7):
        found.run(states, ranks * WIDTH, seed=seed, given={"t": 0.7})
        met(found, p, parts)
    more = meet.schedule.rows_per_block * 2 + 1
    parts, states = parts_of(p, name, ranks, more, turns=1)
    found = Ranks(meet, more, text, groups=9)
    for blocks in (3, 2):
        found.run(states, ranks * WIDTH, blocks=blocks, seed=blocks, given={"t": 0.7})
        met(found, p, parts)
    assert not np.concatenate(found.told).any()


def drawn() -> tuple[fg.Pipeline, list[list[fg.States]], list[np.ndarray], Ranks]:
    p, ranks, rows = fg.pipeline(TEXTS["topk"]), 3, 9
    parts, states = parts_of(p, "topk", ranks, rows, turns=5)
    meet = meet_of(p, ranks)
    return p, parts, states, Ranks(meet, rows, text_of(meet))


MISTAKES = {
    "one box for all turns": ("+ (turn % 2 * kRanks + of) * room", "+ of * room"),
    "flags before states": ("ld.acquire.sys", "ld.relaxed.sys"),
    "flags with states": ("st.release.sys", "st.relaxed.sys"),
    "threads that do not wait for one another": (
        "        __syncthreads();\n#pragma unroll", "#pragma unroll"),
}


@pytest.mark.long
@emulated
@pytest.mark.parametrize("what", [*MISTAKES])
def test_the_emulator_sees_what_would_be_missing(what: str) -> None:
    """Of fences, of barriers, of boxes: a race, whatever the results were."""
    _, _, states, found = drawn()
    right, wrong = MISTAKES[what]
    assert right in found.text
    found.text = found.text.replace(right, wrong)

    def run() -> None:
        for seed in range(1, 9):
            found.run(states, 3 * WIDTH, seed=seed)

    with pytest.raises(simt.SimtError, match=r"race|uninitialised"):
        run()


@pytest.mark.long
@emulated
def test_who_does_not_come_is_missed() -> None:
    """The others wait for so long, tell their hosts, and have no results of that turn; what they
    launch afterwards waits for nobody, and sends nothing."""
    p, parts, states, found = drawn()
    found.run(states, 3 * WIDTH, absent=0b010, seed=3)
    before = [{n: r[:4] for n, r in one.items()} for one in found.results]
    for rank in (0, 2):
        assert found.told[rank].tolist() == [0, 1]
        assert (found.results[rank]["indices"][4] == -1).all()
        assert np.isnan(found.results[rank]["values"][4]).all()
    assert found.told[1].tolist() == [0, 0]
    found.results = before
    met(found, p, parts[:4])
    places = [place.copy() for place in found.places]
    found.run([s[:1] for s in states], 3 * WIDTH, absent=0b010, seed=4)
    assert (found.results[0]["indices"] == -1).all()
    first = -(-8 * 3 // 256) * 256
    for place, before in zip(found.places, places, strict=True):
        np.testing.assert_array_equal(place[first:], before[first:])


@emulated
def test_calls_that_cross_have_no_results() -> None:
    """The ranks of another call; also of one that has fewer rows. The next turn is right."""
    p, parts, states, found = drawn()
    one = [s[:1] for s in states]
    found.run(one, 3 * WIDTH, tags={1: TAG + 1}, seed=2)
    assert [t.tolist() for t in found.told] == [[1, 0]] * 3
    assert all((one["indices"] == -1).all() for one in found.results)
    for told in found.told:
        told[:] = 0
    found.run([s[1:2] for s in states], 3 * WIDTH, seed=5)
    met(found, p, parts[1:2])
    assert not np.concatenate(found.told).any()


def test_memory_is_ordered_for_all_gpus() -> None:
    """The emulator does not tell the scope of an order: that of one GPU would not do."""
    text = meet_source(meet_of(fg.pipeline(TEXTS["topk"]), 2)).text()
    orders = re.findall(r"(?:ld|st)\.(?:acquire|release|relaxed)\.(\w+)", text)
    assert len(orders) == 2
    assert {*orders} == {"sys"}


@compiles
@pytest.mark.parametrize(("name", "ranks", "arch"), [
    (name, *pair) for name, pair in zip(TEXTS, itertools.cycle(
        itertools.product([2, 8, 1], ["sm_90", "sm_80", "sm_100"])), strict=False)])
def test_sources_compile(name: str, ranks: int, arch: str) -> None:
    text = meet_source(meet_of(fg.pipeline(TEXTS[name]), ranks)).text()
    assert "multimem" not in text
    for report in nvrtc.compile_for(text, arch).reports:
        assert report.spill_bytes <= 128, report
        assert report.registers <= 96, report


@emulated
def test_launches_one_after_another(gpu: Any, gpu_served_by: str) -> None:
    """What a step is made of, on the machine that tests have: a rank that meets itself, then what
    takes its results, for states in other places; served by Python, and by compiled code."""
    p = fg.pipeline(TEXTS["softmax_topk"])
    work = {role: p.work(role=role, target="sm_90", n_rows=5, n_cols=n, k=4).program
            for role, n in (("merge", 1), ("finish", 300))}
    meet = GPU.meet(Joint(work["merge"], work["finish"], True, 1, 5), 0)
    size = layout_of(work["merge"]).n_bytes
    place = Place(1, 8, 5 * size)
    at = {name: fake_cupy.array(np.zeros(n, np.uint8)) for name, n in (
        ("place", place.n_bytes), ("control", 32), ("told", 16), ("merged", 5 * size))}
    numbers = {"own_rank": 0, "most_groups": 8, "room": place.room, "tag": TAG,
               "patience": PATIENCE, "n_rows": 5, "whole_columns": 300}
    fixed = [(-1, at[n].data.ptr) for n in ("place", "place", "control", "told", "merged")]
    launch = meet.launch({n: numbers[n] for n in meet.numbers})
    makers = tuple(partial(fake_torch.tensor, np.zeros((5, 4), kind)) for kind in ("f4", "i8"))
    chain = GPU.chain([(launch, ((0, 0), *fixed, (1, 0), (2, 0)))], makers, 1, 0)
    step = MeetingStep(chain=chain, results=lambda made, out: tuple(made),
                       lesson=Lesson(chain, (1,), lambda met: (), lambda made, out: tuple(made)))
    calls, rng = Recall(("states",)), np.random.default_rng(0)
    for turn in (1, 2, 3):
        x = rng.normal(0, 3, (5, 300)).astype("f4")
        states = p.states(fake_cupy.array(x), k=4).array
        assert known([GPU.adopt("states", states)])
        calls.keep(lambda *_: step, (states,), {}, None, ())
        values, columns = calls.serve((states,), {}, None, ())
        want = p.reference(x, k=4)
        np.testing.assert_allclose(values.host, want[0], rtol=1e-5)
        np.testing.assert_array_equal(columns.host, want[1])
        assert at["control"].get().view(np.uint64).tolist()[:2] == [turn << 24, 0]
    assert (calls.serve != calls.find) == (gpu_served_by == "helper")
