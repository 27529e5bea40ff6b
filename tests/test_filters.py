"""Lists that are found among rounded scores are those of the text: on the emulator, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.emulated import EMULATED
from support.tile_cases import DATA, assigned, most_alike
from support.tiles import emulate, prepared
from support.vector_cases import nearest

from fusegen.backend.cuda.schedule import select_tiles

pytestmark = EMULATED


@pytest.fixture(autouse=True)
def _few_columns_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LEAST_COLUMNS", 200)


def same(text: Any, *arrays: Any, **constants: Any) -> None:
    """The same columns as float32 without a filter, and values that are as near as these."""
    _, work = prepared(text, *arrays, **constants)
    assert work.schedule.filters
    found, want = emulate(text, *arrays, **constants), text(*arrays, **constants)
    if isinstance(found, tuple):
        np.testing.assert_allclose(found[0], want[0], rtol=3e-6)
        found, want = found[1], want[1]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("data", DATA)
def test_nearest(data: str) -> None:
    same(nearest, *DATA[data], k=5)


@pytest.mark.parametrize("data", ["usual", "equal", "unusual"])
def test_other_rankings(data: str) -> None:
    same(most_alike, *DATA[data], k=20)
    same(assigned, *DATA[data])


def test_what_is_not_filtered() -> None:
    """Other types, few numbers, few columns, lists beside other results."""
    x, y = DATA["usual"]
    for arrays in ((x.astype("f8"), y.astype("f8")), (x[:, :3], y[:, :3]), (x, y[:150])):
        _, work = prepared(nearest, *arrays, k=3)
        assert not work.schedule.filters
