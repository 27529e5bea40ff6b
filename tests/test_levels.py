"""Adding a home, a merge or a level touches one place: this file adds one of each, and nothing else
knows of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, get_args

import pytest
from support.cuda_cases import assert_close, library_case
from support.emulated import emulated

from fusegen.backend.cuda.bring import Bring
from fusegen.backend.cuda.schedule import homes, levels, merges, price, strip_prices
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.figures import FIGURES, FewRows, ManyRows
from fusegen.backend.cuda.schedule.homes import MEMORY, AnyHome, Array, Shared, Sizes, Stay
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Lanes, Level, Thread, tree
from fusegen.backend.cuda.schedule.merges import AnyMerge, InOrder, Meeting
from fusegen.backend.cuda.schedule.price import price_of
from fusegen.backend.cuda.schedule.work import Work
from fusegen.backend.emit import headers, render
from fusegen.backend.target import CUDA_TARGETS

GPU = CUDA_TARGETS["sm_90"]


@dataclass(frozen=True, slots=True)
class Parked(AnyHome):
    """Every thread parks its vectors of the row in shared memory, in a place of its own."""

    visit: ClassVar[str] = "parked.cuh.j2"
    words: ClassVar[str] = " parked"
    of_threads: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return "parked"

    @property
    def keeps(self) -> bool:
        return True

    def factor(self, stay: Stay, many: ManyRows) -> float:
        return 1.0 + 2 * many.shared

    def capacity(self, held: int) -> int:
        return held

    def shared_bytes(self, sizes: Sizes) -> int:
        return sizes.threads * sizes.vectors * sizes.width * sizes.kept

    def span(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        lines = ["const column_t at = begin + rank;",
                 "const int live = live_vectors<Team, kVectors>(at, end);",
                 "extern __shared__ __align__(16) unsigned char parking[];"]
        start = "parking"
        for a in arrays:
            place = f"reinterpret_cast<{a.type}*>({start}) + threadIdx.x * kItems"
            lines.append(f"{a.type}* {a.name}_parked = {place};")
            start = f"{start} + kTeam * kItems * sizeof({a.type})"
        return tuple(lines)

    def enter(self, arrays: Sequence[Array]) -> tuple[str, ...]:
        return tuple(line for a in arrays for line in (
            f"Items<{a.type}, kItems> {a.name}_first;",
            f"load_items({a.name}_first, {a.row}, at, live);",
            f"for (int i = 0; i < live * kWidth; ++i) {a.name}_parked[i] = {a.name}_first[i];",
        ))

    def brings(self, name: str, kind: str) -> tuple[Bring, ...]:
        loop = f"for (int i = 0; i < n * kWidth; ++i) items.set(i, {name}_parked[i]);"
        return (Bring(f"{name}_items", kind, f"[&](auto& items, int n) {{ {loop} }}({name}_items"),)


PARKED = """
    {
{% with live = "live", brings = sweep.brings, n_items = "kItems" %}
{% include "cuda/partials/visit_chunk.cuh.j2" %}
{% endwith %}
    }
"""


@dataclass(frozen=True, slots=True)
class ThroughSlots(AnyMerge):
    """Every thread leaves its state in shared memory, and folds those of all, in order."""

    header = "fusegen/meet/slots.cuh"
    meets = True

    def folds(self, lists: bool) -> bool:
        return True

    def function(self, meeting: Meeting) -> str:
        return "slots_reduce<Team>"

    def arguments(self, meeting: Meeting) -> str:
        return f", {meeting.place}"

    def array(self, meeting: Meeting) -> str:
        return meeting.array("kMostThreads")

    def latency(self, threads: int, blocks: int, few: FewRows) -> float:
        return few.block * threads


SLOTS = """#pragma once

#include <fusegen/team.cuh>

namespace fusegen {

template <typename Team, typename State>
__device__ State slots_reduce(State mine, State* meeting)
{
    meeting[threadIdx.x] = mine;
    __syncthreads();
    State total = State::identity();
    for (int other = 0; other < Team::threads(); ++other) total = merge(total, meeting[other]);
    return total;
}

}  // namespace fusegen
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The template of the home and the header of the merge above, beside our own."""
    (tmp_path / "parked.cuh.j2").write_text(PARKED)
    monkeypatch.setattr(render._environment().loader, "searchpath",
                        [*render._environment().loader.searchpath, str(tmp_path)])
    shutil.copytree(headers.include_dir(), tmp_path / "include")
    (tmp_path / "include" / ThroughSlots.header).write_text(SLOTS)
    monkeypatch.setattr(headers, "include_dir", lambda: tmp_path / "include")
    yield
    headers.header.cache_clear()


def schedule_of(*levels: Level) -> CudaSchedule:
    return CudaSchedule(target=GPU, levels=levels, load="aligned", fixed=True)


@emulated
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "var_mean"])
def test_another_home(added: None, name: str) -> None:
    case = library_case(name, 3, 700)
    one = schedule_of(*tree(Thread(3, 4), 64, Block(64), Parked()))  # type: ignore[arg-type]
    assert one.home == Parked()
    assert "row per block parked, 3 × 4 elements" in one.shape
    kernel = case.work().scheduled(one).program.kernels[0]
    (launch,) = launches(case.work().result("lower"), one)
    kept = len(kernel.sweeps) > 1
    assert launch.shared_bytes == (64 * 12 * 4 if kept else 0)
    assert_close(case.emulate(schedule=one, seed=1), case.reference(), 3e-6)


@emulated
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "argmax", "cross_entropy"])
def test_another_merge_in_a_tree_of_other_levels(added: None, name: str) -> None:
    """Threads and a block, without a level of warps between them."""
    case = library_case(name, 3, 700)
    block = Level(Block(96), ThroughSlots())  # type: ignore[arg-type]
    one = schedule_of(Level(Thread(2, 4), InOrder()), block)
    assert one.algorithm == "chunks of 8, merged thread → block"
    source = case.work().scheduled(one).emitted.body
    assert "slots_reduce<Team>(" in source
    assert "lanes_reduce" not in source
    assert_close(case.emulate(schedule=one, seed=1), case.reference(), 3e-6)


@emulated
def test_both_together(added: None) -> None:
    case = library_case("softmax", 3, 700)
    thread = Level(Thread(3, 4), InOrder(), Parked())  # type: ignore[arg-type]
    one = schedule_of(thread, Level(Block(64), ThroughSlots()))  # type: ignore[arg-type]
    assert_close(case.emulate(schedule=one, seed=2), case.reference(), 3e-6)


def test_what_is_added_has_its_price() -> None:
    def parts(one: CudaSchedule, rows: int) -> dict[str, float]:
        work = Work(rows=rows, vectors=150, sweeps=2, stores=True, extra=0, vector_bytes=128)
        return dict(price_of(one, work).parts)

    chunk = Thread(6, 4)
    plain, parked = (schedule_of(*tree(chunk, 64, Block(64), home))  # type: ignore[arg-type]
                     for home in (MEMORY, Parked()))
    assert parts(plain, 10**5)["home"] > 1 + FIGURES.many.again
    assert parts(parked, 10**5)["home"] == 1 + 2 * FIGURES.many.shared
    # 64 threads · 6 vectors of 128 bytes leave room for fewer blocks than registers do.
    assert parts(parked, 10**5)["threads"] > parts(plain, 10**5)["threads"]
    slots = schedule_of(Level(chunk, InOrder(), Parked()),  # type: ignore[arg-type]
                        Level(Block(64), ThroughSlots()))  # type: ignore[arg-type]
    assert parts(slots, 1)["merges"] == 64 * FIGURES.few.block
    assert parts(slots, 1)["merges"] > parts(parked, 1)["merges"]


def test_prices_ask_no_level_which_it_is() -> None:
    """What a home, a merge or an owner costs is its own to say."""
    known = [*vars(price).values(), *vars(strip_prices).values()]
    kinds = [*get_args(homes.Home), *get_args(merges.Merge), *get_args(levels.Owner)]
    assert len(kinds) > 15
    assert [kind.__name__ for kind in kinds if kind in known] == []


@pytest.mark.parametrize("team", [Lanes(8), Block(128), Cluster(4), Grid(4)])
def test_a_tree_says_what_it_is_made_of(team: Lanes | Block | Cluster | Grid) -> None:
    one = schedule_of(*tree(Thread(4, 4), 128, team))
    assert (one.team, one.threads, one.vectors, one.width) == (team, 128, 4, 4)
    assert one.blocks == getattr(team, "blocks", 1)
    assert one.rows_per_block == (16 if team == Lanes(8) else 1)
    assert one.home == MEMORY
    assert one.having(threads=256).having(threads=128) == one
    kept = one.having(home=Shared(99, early=True))
    assert kept.home == Shared(99, early=True)
    assert (kept.team, kept.chunk) == (one.team, one.chunk)
    assert kept.having(home=MEMORY) == one
    wide = replace(one, wide_columns=True)
    assert wide.levels == one.levels
