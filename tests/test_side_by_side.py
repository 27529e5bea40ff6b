"""Calls along an axis whose elements are not neighbours, read where they lie (fake_gpu.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import fake_torch
from support.emulated import EMULATED
from support.fake_cupy import array
from test_calls import fresh, rows, same

import fusegen as fg

pytestmark = EMULATED


def down(gpu: Any) -> bool:
    """Did the last launch go down rows that lie side by side?"""
    return "n_inner" in gpu.launched[-1]["source"]


@pytest.mark.parametrize("kind", [array, fake_torch.tensor])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((70, 24), 0), ((2, 70, 24), 1), ((3, 2, 50, 4, 8), 2), ((70, 4, 9), 0), ((2, 33, 3), -2)],
)
def test_nothing_is_copied(gpu, looks, kind, shape, axis):
    for name in ("softmax", "logsumexp"):
        p = fresh(name)
        for seed in range(2):
            x = rows(*shape, seed=seed)
            given = kind(x)
            got = p(given, axis=axis)
            assert type(got) is type(given)
            assert got.get().flags.c_contiguous
            assert down(gpu)
            same(got, p.reference(x, axis=axis))
    assert len(looks) == 2, "remembered, as calls whose arrays nobody had to copy"


def test_several_arrays_and_values_per_row_and_column(gpu, looks):
    x, w, t = rows(2, 40, 16), rows(40, seed=1), np.arange(32).reshape(2, 16) % 40
    norm, cross = fresh("layer_norm"), fresh("cross_entropy")
    got = norm(array(x), array(w), array(w), axis=1)
    np.testing.assert_allclose(got.get(), norm.reference(x, w, w, axis=1), rtol=3e-6, atol=1e-6)
    assert down(gpu)
    same(cross(array(x), array(t), axis=1), cross.reference(x, t, axis=1))
    assert down(gpu)


@pytest.mark.long
def test_forms_with_arrays_between_kernels(gpu):
    x = rows(2, 90, 20)
    for name in ("softmax", "layer_norm"):
        p = fresh(name)
        for form in ("online", "safe", "unfused"):
            same(p(array(x), axis=1, form=form), p.reference(x, axis=1))
            assert down(gpu)


def test_out_is_written_where_it_lies(gpu, looks):
    p, x = fresh(), rows(3, 50, 12)
    want = p.reference(x, axis=1)
    plain, padded = array(np.zeros((3, 50, 12), "f4")), array(np.full((3, 50, 20), 7.0, "f4"))
    for out in (plain, padded[:, :, :12]):
        for _ in range(2):
            assert p(array(x), axis=1, out=out) is out
            same(out, want)
    assert (padded.get()[:, :, 12:] == 7).all()
    assert len(looks) == 2
    turned = array(np.zeros((3, 12, 50), "f4")).transpose(0, 2, 1)  # rows as copies would have them
    assert p(array(x), axis=1, out=turned) is turned
    same(turned, want)
    x_on = array(x)
    with pytest.raises(fg.ArgumentError, match="overlaps the input x"):
        p(x_on, axis=1, out=x_on)


@pytest.mark.long
def test_what_lies_otherwise_is_laid_out(gpu):
    p, x = fresh(), rows(6, 40, 10)
    for given in (array(x)[:, :, ::2], array(x).transpose(1, 0, 2)[::-1].transpose(1, 0, 2)):
        for axis in (0, 1):
            same(p(given, axis=axis), p.reference(given.get(), axis=axis))
    lists, weighted = fresh("topk"), fresh("weighted_mean")
    got = lists(array(x), k=2, axis=1)
    np.testing.assert_array_equal(got[0].get(), lists.reference(x, k=2, axis=1)[0])
    assert not down(gpu)
    w = rows(6, 40, 1, seed=3) ** 2
    want = weighted.reference(x, np.broadcast_to(w, x.shape), axis=1)
    same(weighted(array(x), array(w), axis=1), want)
    same(p(array(x), axis=1, deterministic=True), p.reference(x, axis=1))
    assert not down(gpu)


def test_sizes_take_turns(gpu):
    """Other rows side by side, other alignment, the same number of rows."""
    p = fresh("logsumexp")
    for shape in ((2, 30, 12), (3, 30, 8), (24, 30, 1), (1, 30, 24), (2, 30, 12)):
        x = rows(*shape)
        same(p(array(x), axis=1), p.reference(x, axis=1))
        same(p(array(x, shift=1), axis=1), p.reference(x, axis=1))
