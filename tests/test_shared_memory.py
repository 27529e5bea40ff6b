"""out= beside the inputs: rows in turn and columns side by side share no memory, and what shares
some is refused, at the first call as at those that are remembered."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_remembered import LIBRARIES

import fusegen as fg
from fusegen.backend.arrays import spans
from fusegen.backend.cpu.toolchain import find_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def fresh(name: str) -> fg.Pipeline:
    return fg.Pipeline(getattr(fg.library, name).fn)


@fg.pipeline
def both(x: Any) -> Any:
    return x * 2, x + 1


CUTS: tuple[tuple[str, Callable[[Any], tuple[Any, Any, Any]]], ...] = (
    ("rows in turn", lambda m: (m[::3], m[1::3], m[2::3])),
    ("columns side by side", lambda m: (m[:, :37], m[:, 37:74], m[:, 74:111])),
    ("columns backwards", lambda m: (m[:, 74:111], m[:, 37:74], m[:, :37])),
    ("both", lambda m: (m[::2, :37], m[1::2, 3:40], m[::2, 41:78])),
    ("columns in turn", lambda m: (m[:, :111:3], m[:, 1:111:3], m[:, 2:111:3])),
)
"""(input, out, another out) of one array, which share nothing."""


@needs_compiler
@LIBRARIES
@pytest.mark.parametrize(("name", "cut"), CUTS, ids=[name for name, _ in CUTS])
def test_parts_of_one_array_that_share_nothing(there, served_by, looks, name, cut):
    p, whole = fg.Pipeline(both.fn), np.arange(12 * 128, dtype="f4").reshape(12, 128)
    x, first, second = cut(whole)
    written = np.zeros(whole.shape, bool)
    for part in cut(written)[1:]:
        part[...] = True
    want, before = (x * 2, x + 1), whole.copy()
    given = tuple(there(part) for part in cut(whole))
    for _ in range(3):
        first[...] = second[...] = -1
        p(given[0], out=given[1:])
        np.testing.assert_array_equal(first, want[0])
        np.testing.assert_array_equal(second, want[1])
        np.testing.assert_array_equal(whole[~written], before[~written])
    if name != "columns in turn":  # which no kernel writes as they lie
        assert len(looks) == 1


@needs_compiler
@LIBRARIES
def test_one_byte_of_both_is_refused_however_often(there, served_by):
    p, whole = fresh("softmax"), np.random.default_rng(0).random((12, 128)).astype("f4")
    x = there(whole[:, :40])
    for _ in range(3):
        beside = there(whole[:, 40:80])
        assert p(x, out=beside) is beside
        for wrong in (whole[:, 39:79], whole[:, :40], whole[:, 2:42]):
            with pytest.raises(fg.ArgumentError, match="out overlaps the input x"):
                p(x, out=there(wrong))
    even = there(whole[::2])
    for wrong in (whole[::2], whole[6:]):
        with pytest.raises(fg.ArgumentError, match="out overlaps the input x"):
            p(even, out=there(wrong))


def test_two_results_that_share_memory_are_refused():
    whole, x = np.empty((4, 12), "f4"), np.ones((4, 6), "f4")
    both(x, out=(whole[:, ::2], whole[:, 1::2]))
    np.testing.assert_array_equal(whole, 2)
    for wrong in (whole[:, :6], whole[:, 6:]):
        with pytest.raises(fg.ArgumentError, match="one of the out= arrays overlaps another"):
            both(x, out=(whole[:, ::2], wrong))


def test_what_is_hard_to_tell_is_refused_as_that(monkeypatch):
    def hard(*_: Any, **__: Any) -> bool:
        raise np.exceptions.TooHardError

    whole = np.ones((6, 10), "f4")
    monkeypatch.setattr(np, "shares_memory", hard)
    with pytest.raises(fg.ArgumentError, match=r"out\[.mul.\] may overlap the input x"):
        both(whole[::2], out=(whole[1::2], np.empty((3, 10), "f4")))
    made = np.empty((3, 10), "f4")  # out of reach: nothing is asked
    assert both(whole[::2], out=(made, np.empty((3, 10), "f4")))[0] is made


def _cuts(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Two parts of one array, of any shapes, steps and types."""
    pick = random.Random(seed)
    whole = np.zeros(240, "i1")

    def part() -> np.ndarray:
        kind = pick.choice(("i1", "i2", "i4"))
        shape = tuple(pick.randint(1, 5) for _ in range(pick.randint(1, 3)))
        steps = tuple(pick.choice((-1, 1)) * pick.randint(1, 19) for _ in shape)
        low = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s < 0)
        high = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s > 0)
        start = pick.randint(-low, max(-low, 236 - high))
        if start + high + 4 > 240:
            return part()
        return np.ndarray(shape, kind, whole.data, start, steps)

    for _ in range(1500):
        yield part(), part()


def _bytes(array: np.ndarray) -> set[int]:
    places = [int(array.ctypes.data)]
    for n, step in zip(array.shape, array.strides, strict=True):
        places = [p + k * step for p in places for k in range(n)]
    return {p + k for p in places for k in range(array.itemsize)}


def test_overlaps_are_those_that_every_byte_tells():
    told: dict[str, int] = {}
    for one, other in _cuts(0):
        found = spans.overlap(one, other)
        assert found == ("overlaps" if _bytes(one) & _bytes(other) else "")
        told[found] = told.get(found, 0) + spans.within_reach(one, other)
    assert min(told.values()) > 100
