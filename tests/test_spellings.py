"""How products with a moved sum and with a read-out's coefficient are spelled in floats: no step
forms 0 · ∞ or 1 / (a subnormal number) that the text does not form.

Every short row far from 0, cut in every way, on both backends, beside float64 written out here.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import simt
from support.merge_trees import GPU, HOST, drive, trees

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler

TARGETS = [
    pytest.param(HOST, id="cpu", marks=pytest.mark.skipif(find_compiler() is None, reason="none")),
    pytest.param(GPU, id="cuda", marks=pytest.mark.skipif(
        simt.available() is not None, reason=str(simt.available()))),
]


@fg.pipeline
def selections(x):
    """An indicator of an extreme times an exponential, a weight, or a power of a quotient."""
    m, low, a = fg.max(x), fg.min(x), fg.max(fg.abs(x))
    p = fg.library.softmax(x)
    return {
        "others": fg.sum(fg.where(x < m, p, 0)),
        "greatest": fg.sum(fg.where(x >= m, p, 0)),
        "below": fg.sum(fg.where(x < m, fg.exp(x - m), 0)),
        "above": fg.sum(fg.where(x > low, fg.exp(low - x), 0)),
        "weighted": fg.sum(fg.where(x != m, p * x, 0)),
        "smaller": fg.sum(fg.where(fg.abs(x) < a, (x / a) ** 2, 0)),
    }


def selected(x):
    """The same, straight from the definitions, in float64."""
    m, low, a = x.max(1, keepdims=True), x.min(1, keepdims=True), abs(x).max(1, keepdims=True)
    e = np.exp(x - m)
    p = e / e.sum(1, keepdims=True)
    terms = (p * (x < m), p * (x == m), e * (x < m), np.exp(low - x) * (x > low),
             p * x * (x != m), (x / a) ** 2 * (abs(x) < a))
    return [t.sum(1) for t in terms]


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_selections_hold_wherever_the_row_lies(target):
    letters = (-200, -199, -100.5, 100, 199, 200)
    driven = drive(selections, {"x": np.zeros((1, 1), np.float32)}, {}, target)
    assert len(driven.work.program.sweeps) == 1
    for n in (1, 2, 3):
        x = np.array(list(itertools.product(letters, repeat=n)), np.float32)
        found = driven.run({"x": x}, trees(n))
        for name, got, want in zip(selections_names(driven), found, selected(x.astype(float)),
                                   strict=True):
            np.testing.assert_allclose(got, np.repeat(want[:, None], got.shape[1], 1), 3e-6, 1e-37,
                                       err_msg=name)


def selections_names(driven):
    return [p.name for p in driven.work.program.outputs]


@fg.pipeline
def quotients(x):
    """Sums over one row value: subnormal ones have no reciprocal."""
    m, a = fg.max(x), fg.max(fg.abs(x))
    return {
        "sum": fg.sum(x / m), "mean": fg.mean(x / a), "negative": fg.sum(-x / m),
        "scaled": fg.sum(3 * x / a), "twice": fg.sum((x + fg.abs(x)) / a),
    }


@pytest.mark.parametrize("target", TARGETS)
def test_a_subnormal_scale_is_divided_by(target):
    driven = drive(quotients, {"x": np.zeros((1, 1), np.float32)}, {}, target)
    x = np.array([[1, 2, 3], [4, 4, 4], [9, -1, 2], [-1, -9, -3]], np.float32) * np.float32(1e-40)
    found = driven.run({"x": x}, trees(3))
    x = x.astype(float)
    m, a = x.max(1, keepdims=True), abs(x).max(1, keepdims=True)
    due = ((x / m).sum(1), (x / a).mean(1), (-x / m).sum(1), (3 * x / a).sum(1),
           ((x + abs(x)) / a).sum(1))
    for got, want in zip(found, due, strict=True):
        np.testing.assert_allclose(got, np.repeat(want[:, None], got.shape[1], 1), 1e-6)
