"""Rows that in some round have more candidates than there is room for: on the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import emulated
from support.tile_cases import drawn, most_alike
from support.tiles import emulate, prepared
from support.vector_cases import nearest

from fusegen.backend.cuda.emit.tiles import rounds as emitted
from fusegen.backend.cuda.schedule.tiles import rounds
from fusegen.backend.cuda.schedule.tiles import select as select_tiles
from fusegen.backend.cuda.schedule.tiles.rounds import BOUND_WORDS, Visits

pytestmark = emulated.EMULATED
ROOM, COLUMNS = 128, 2000


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, altered_sources: None) -> dict[str, Any]:
    """Rows' bounds before and after the launch that goes over all columns again, where there is
    little room."""
    monkeypatch.setattr(select_tiles, "LEAST_COLUMNS", 200)
    for module in (rounds, emitted):
        monkeypatch.setattr(module, "room", lambda k, short: ROOM)
    found: dict[str, Any] = {}
    run = emulated.EmulatedExecutable._launch

    def noted(self: Any, launch: Any, shape: Any, held: Any, kept: Any, extent: Any) -> None:
        again = launch.visits is not None and launch.visits.again
        if again:
            found["before"] = _bounds(kept, extent.n_rows)
        run(self, launch, shape, held, kept, extent)
        if again:
            found["after"] = _bounds(kept, extent.n_rows)

    monkeypatch.setattr(emulated.EmulatedExecutable, "_launch", noted)
    return found


def _bounds(kept: Any, n_rows: int) -> Any:
    words = kept["row_bounds"].reshape(-1).view("i4")
    return words[:n_rows * BOUND_WORDS].reshape(n_rows, BOUND_WORDS).copy()


COUNT, LOST = 5, 6  # words of RowBound


def sorted_columns(*lead: int) -> Any:
    """In the order of their first number, so that neighbours are alike."""
    y = drawn(*lead, COLUMNS, 16, seed=1)
    y[..., 0] = np.linspace(-8, 8, COLUMNS, dtype="f4")
    return y


def check(text: Any, x: Any, y: Any, k: int) -> None:
    assert prepared(text, x, y, k=k)[1].schedule.in_rounds
    found, want = emulate(text, x, y, k=k), text(x, y, k=k)
    np.testing.assert_array_equal(found[1], want[1])
    np.testing.assert_allclose(found[0], want[0], rtol=3e-6)


def towards_the_last(x: Any, *rows: int) -> Any:
    """Rows whose best columns are the last ones; of others, the first number says nothing."""
    x[..., 0] = 0
    for row in rows:
        x.reshape(-1, x.shape[-1])[row, 0] = 40
    return x


@pytest.mark.long
@pytest.mark.parametrize("text", [nearest, most_alike])
def test_all_rows_lose_candidates(text: Any, ends: dict[str, Any]) -> None:
    x = towards_the_last(drawn(5, 16), *range(5))
    check(text, x, sorted_columns(), 3)
    assert ends["before"][:, LOST].all()
    assert not ends["before"][:, COUNT].any()
    assert (ends["after"][:, COUNT] >= 3).all()
    assert (ends["after"][:, COUNT] <= ROOM).all()  # so that none is scored in full


@pytest.mark.long
def test_one_row_of_one_batch_does(ends: dict[str, Any]) -> None:
    """What others have is neither found twice nor dropped."""
    x = towards_the_last(drawn(3, 4, 16), 6)
    check(most_alike, x, sorted_columns(3), 3)
    lost = ends["before"][:, LOST]
    assert np.flatnonzero(lost).tolist() == [6]
    assert 3 <= ends["after"][6, COUNT] <= ROOM
    others = lost == 0
    np.testing.assert_array_equal(ends["after"][others], ends["before"][others])


@pytest.mark.long
def test_one_row_of_the_second_tile_does(ends: dict[str, Any]) -> None:
    x = towards_the_last(drawn(260, 16), 258)
    check(most_alike, x, sorted_columns(), 3)
    assert np.flatnonzero(ends["before"][:, LOST]).tolist() == [258]
    assert 3 <= ends["after"][258, COUNT] <= ROOM


@pytest.mark.long
def test_columns_of_which_nothing_is_known(ends: dict[str, Any]) -> None:
    """They are candidates of all rows, at any bound; one row of NaN is scored in full."""
    x, y = towards_the_last(drawn(4, 16), 1, 2), sorted_columns()
    y[7, 3], y[1000, 2], y[1990, 1], x[2, 5] = np.nan, np.inf, -np.inf, np.nan
    check(most_alike, x, y, 5)
    assert ends["before"][:, LOST].tolist() == [0, 1, 0, 0]
    np.testing.assert_array_equal(ends["after"][[0, 3]], ends["before"][[0, 3]])


@pytest.mark.long
def test_rows_that_lose_candidates_again(ends: dict[str, Any]) -> None:
    """More columns are equal than there is room for: the first ones are the best."""
    y = sorted_columns()
    y[700:1100] = y[-1]
    check(nearest, towards_the_last(drawn(3, 16), 0, 2), y, 5)
    assert (ends["after"][:, COUNT] > ROOM).tolist() == [True, False, True]


def test_blocks_that_share_what_is_done_again() -> None:
    visits = Visits(3, 0, again=True)
    assert visits.of(7813) == (0, 7813)
    assert visits.splits(40, 7813, 132) == 132
    assert visits.splits(40, 64, 132) == 8
    assert visits.splits(40, 1, 132) == 1
