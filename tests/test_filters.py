"""Lists that are found among rounded scores are those of the text: on the emulator, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.emulated import EMULATED
from support.pairs import pairwise
from support.tile_cases import DATA, assigned, drawn, most_alike
from support.tiles import emulate, prepared
from support.vector_cases import nearest

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select as select_tiles
from fusegen.backend.cuda.schedule.tiles.rounds import Visits, rounds_of, spread
from fusegen.ir.dtypes import dtype_of

pytestmark = EMULATED


@pytest.fixture(autouse=True)
def _few_columns_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LEAST_COLUMNS", 200)


def same(text: Any, *arrays: Any, arch: str = "sm_90", **constants: Any) -> None:
    """The same columns as float32 without a filter, and values that are as near as these."""
    _, work = prepared(text, *arrays, arch=arch, **constants)
    assert work.schedule.filters
    assert work.schedule.in_rounds == (arch == "sm_90")
    found, want = emulate(text, *arrays, arch=arch, **constants), text(*arrays, **constants)
    if isinstance(found, tuple):
        np.testing.assert_allclose(found[0], want[0], rtol=3e-6)
        found, want = found[1], want[1]
    np.testing.assert_array_equal(found, want)


@pytest.mark.long
@pytest.mark.parametrize(("data", "arch"), [
    *((data, "sm_90") for data in DATA), ("usual", "sm_80"), ("equal", "sm_80"),
    ("unusual", "sm_80")])
def test_nearest(data: str, arch: str) -> None:
    same(nearest, *DATA[data], arch=arch, k=5)


@pytest.mark.long
@pytest.mark.parametrize(("data", "text"), [
    ("usual", most_alike), ("equal", assigned), ("unusual", most_alike), ("unusual", assigned)])
def test_other_rankings(data: str, text: Any) -> None:
    same(text, *DATA[data], **({"k": 20} if text is most_alike else {}))


@fg.pipeline
def farthest(x: fg.RowVector, y: fg.ColumnVector, *, k=3):
    return fg.topk(fg.sqdist(x, y), k)


@fg.pipeline
def by_root(x: fg.RowVector, y: fg.ColumnVector, *, k=3):
    return fg.topk(fg.sqrt(fg.sqdist(x, y)), k, largest=False)


@fg.pipeline
def least_alike(x: fg.RowVector, y: fg.ColumnVector, *, k=3):
    return fg.topk(fg.dot(x, y), k, largest=False)


@pytest.mark.long
@pytest.mark.parametrize(("text", "arch", "data"), pairwise(
    [farthest, by_root, least_alike], ["sm_80", "sm_90"], ["usual", "equal"]))
def test_rankings_the_other_way_around(text: Any, arch: str, data: str) -> None:
    same(text, *DATA[data], arch=arch, k=5)


CROWDED = (100 + drawn(2, 16) / 10_000, 100 + drawn(1500, 16) / 10_000)  # all may be the best


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_more_candidates_than_there_is_room_for(arch: str) -> None:
    same(nearest, *CROWDED, arch=arch, k=3)


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_squares_that_underflow(arch: str) -> None:
    """Errors of rounding are no less than they are where their squares are lost."""
    sizes = np.float32((1e-22, 1) if arch == "sm_80" else (1, 1e-30))
    same(most_alike, drawn(3, 16) * sizes[0], drawn(600, 16) * sizes[1], arch=arch, k=5)


@pytest.mark.long
def test_batches() -> None:
    """Columns of a batch, shared by some of the rows; and vectors that fill several copies."""
    same(nearest, drawn(2, 3, 5, 20), drawn(2, 1, 300, 20, seed=1), k=4)
    same(most_alike, drawn(70, 200), drawn(450, 200, seed=1), k=7)


@pytest.mark.long
@pytest.mark.parametrize(("text", "dtype"), [(nearest, "bfloat16"), (most_alike, "float16")])
def test_vectors_of_16_bits(text: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of few rows whose dots are ranked are not copied."""
    x, y = (a.astype(dtype_of(dtype).numpy) for a in (drawn(5, 17), drawn(700, 17, seed=1)))
    _, work = prepared(text, x, y, k=6)
    assert work.schedule.in_rounds == (text is nearest)
    monkeypatch.setattr(select_tiles, "COPIED_ROWS", 1)
    found = emulate(text, x, y, k=6)
    assert prepared(text, x, y, k=6)[1].schedule.in_rounds
    want = text(x.astype("f4"), y.astype("f4"), k=6)
    np.testing.assert_array_equal(found[1], want[1])
    np.testing.assert_array_equal(np.asarray(found[0]), want[0].astype(found[0].dtype))


@pytest.mark.long
@pytest.mark.parametrize("data", ["many", "equal", "unusual"])
def test_one_round_of_few_columns(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, least in (("LEAST_COLUMNS", 8192), ("SHORT_COLUMNS", 1), ("SHORT_WORK", 0)):
        monkeypatch.setattr(select_tiles, name, least)
    _, work = prepared(nearest, *DATA[data], k=5)
    assert work.schedule.short
    same(nearest, *DATA[data], k=5)
    if data == "unusual":
        same(assigned, *DATA[data])


def test_which_tiles_rounds_visit() -> None:
    """Each of them in one round, in an order that shows a fair sample first."""
    for k, short in ((1, False), (10, False), (64, False), (256, False), (1, True), (16, True)):
        for tiles in (1, 2, 5, 64, 1000, 7813, 2**21):
            numbers = range(rounds_of(k, short) + 1)
            sample, *rounds = (Visits(k, n, short).of(tiles) for n in numbers)
            assert sample[0] == 0 < sample[1] <= tiles
            ends = [0, *(end for _, end in rounds)]
            assert [first for first, _ in rounds] == ends[:-1]
            assert ends[-1] == tiles
            assert ends == sorted(ends)
    for tiles in (2, 3, 6, 97, 7813):
        step = spread(tiles)
        assert len({v * step % tiles for v in range(tiles)}) == tiles


def test_what_is_not_filtered() -> None:
    """Other types, few numbers, few columns, lists beside other results."""
    x, y = DATA["usual"]
    for arrays in ((x.astype("f8"), y.astype("f8")), (x[:, :3], y[:, :3]), (x, y[:150])):
        _, work = prepared(nearest, *arrays, k=3)
        assert not work.schedule.filters
