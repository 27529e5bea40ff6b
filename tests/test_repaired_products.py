"""Sums of products, of shares and of several terms about pivots of their own elements: proved, in
one sweep, as accurate as the text, and with its special values."""

from __future__ import annotations

import functools
import itertools
import warnings

import numpy as np
import pytest
from fuzz.float_judge import accepted
from fuzz.float_rows import TREES, execute

import fusegen as fg
from fusegen.compile.lower.online import online_kernel
from fusegen.ir.dtypes import FLOAT32
from fusegen.oracle.replay import RowsReplay, balanced, chain

INF = float("inf")


def softmax(a):
    e = fg.exp(a - fg.max(a))
    return e / fg.sum(e)


def shares(a):
    p = softmax(a)
    return p * (1 - p)


def middle(a):
    return (fg.max(a) + fg.min(a)) / 2


KEPT = {
    "first power": lambda x, y: fg.sum((x - 0.5 * fg.max(x)) ** 1),
    "first power of a multiple": lambda x, y: fg.mean((y * -1 - fg.max(y * -1) * 0.5) ** 1),
    "one beside an extreme": lambda x, y: fg.sum((x - fg.mean(fg.abs(x))) * (x - fg.max(x))),
    "square beside": lambda x, y: fg.mean((x - fg.max(x)) ** 2 * (x - fg.mean(fg.abs(x)))),
    "beside a mean": lambda x, y: fg.sum((y - fg.mean(y)) * (x - fg.max(y**2))),
    "a multiple's mean": lambda x, y: fg.mean(x * (x + x - fg.mean(x + x)) ** 2),
    "weighed multiple": lambda x, y: fg.sum(fg.abs(y) * (y * -1 - fg.mean(y * -1)) ** 2),
    "weighed maximum": lambda x, y: fg.sum(
        fg.where(y > 0, 1.0, 0.0) * (fg.maximum(x, 0) - fg.mean(fg.maximum(x, 0))) ** 2
    ),
    "difference": lambda x, y: fg.sum(fg.exp(x - fg.min(x)) - fg.abs(x - fg.max(x))),
    "two terms": lambda x, y: fg.sum(fg.exp(x - fg.mean(x)) + fg.exp(y - fg.max(x))),
    "u exp(u)": lambda x, y: fg.sum((x - middle(x)) * fg.exp(x - middle(x))),
    "below the greatest": lambda x, y: fg.sum(
        fg.exp(y - fg.max(fg.abs(y))) * (y - fg.max(y)) ** 2
    ),
    "shares": lambda x, y: fg.sum(shares(x)),
    "shares of a multiple": lambda x, y: fg.mean(shares(x * -1)),
    "shares of a product": lambda x, y: fg.sum(shares(x * y)),
    "shares of a difference": lambda x, y: fg.sum(shares(x - y)),
    "shares of magnitudes": lambda x, y: fg.mean(shares(fg.abs(x))),
}
"""Texts that are refused as they stand."""

REFUSED = {
    "far from one another": lambda x, y: fg.mean((x - fg.max(x)) * (y - 0.5 * fg.max(y))),
    "0 at the greatest": lambda x, y: fg.sum(
        fg.exp(x - fg.sqrt(fg.mean(x**2))) * (y - fg.max(y)) ** 2
    ),
    "terms that cancel": lambda x, y: fg.mean(
        (x / fg.max(x)) ** 2 - (x**2 - fg.max(fg.where(y > 0, x**2, -INF))) ** 2
    ),
    "all terms 0 where x is constant": lambda x, y: fg.sum(1 - fg.exp(x - middle(x))),
}
"""Texts of the same shapes whose read-out would cancel, or whose terms would vanish."""


@functools.cache
def _work(text):
    """Derived once for all tests of the text."""
    names = ("x", "y")
    pipeline = fg.pipeline(text)
    graph = pipeline.traced(frozenset(names), {}).graph
    return graph, accepted(graph)


@pytest.mark.long
@pytest.mark.parametrize("name", KEPT)
def test_kept_about_another_pivot_with_every_obligation_proved(name):
    graph, found = _work(KEPT[name])
    (out,) = graph.outputs
    assert [r.name for r in found.final.repairs] == [graph.names[out]]
    assert {r.obligation.status for r in found.final.repairs} == {"proved"}
    assert not found.caught(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the trial has nothing to say
        pipeline = fg.pipeline(KEPT[name])
        assert pipeline.plan(form="online").sweeps == 1
    assert f"{graph.names[out]} about another pivot" in str(pipeline.derivation())


@pytest.mark.long
@pytest.mark.parametrize("name", KEPT)
def test_as_accurate_as_the_text_on_every_tree_of_hard_rows(name):
    graph, found = _work(KEPT[name])
    sums = [r.name for r in found.final.repairs]
    worst = execute(graph, found.final, sums, TREES, 3, [0])
    for each in worst.values():
        assert each.rows > 500
        assert each.excess <= 1, str(each)


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_cancel_or_vanish_keeps_its_sweep(name):
    _, found = _work(REFUSED[name])
    assert found.repaired.repairs == ()
    assert found.final.refusals


@pytest.mark.long
def test_shares_are_right_where_one_is_nearly_all():
    """The text loses what 1 − p has lost; sums over the others do not."""
    graph, found = _work(KEPT["shares"])
    rng = np.random.default_rng(3)
    low = -rng.uniform(5, 40, (60, 1)) - rng.random((60, 37))
    low[:, 11] = 0
    ties = np.where(low < low.mean(), -30, 0.0)
    for x in (low, np.zeros((3, 37)), ties, rng.normal(size=(9, 37))):
        x = x.astype(np.float32)
        e = np.exp(x.astype(np.longdouble) - x.max(1, keepdims=True))
        d, square = e.sum(1), (e * e).sum(1)
        others = np.where(x == x.max(1, keepdims=True), 0, e)
        c, n = d - others.sum(1), others.sum(1)
        want = (c * (c - 1) + 2 * c * n + n * n - (square - c)) / d**2
        dtypes = {i.name: FLOAT32 for i in graph.inputs}
        kernel = online_kernel(graph, found.final, dtypes)
        for tree in (chain(1), chain(7), balanced(1)):
            replay = RowsReplay(kernel, {"x": x, "y": x}, 37)
            replay.run(tree)
            got = replay.env[graph.names[graph.outputs[0]]][:, 0]
            assert got == pytest.approx(want.astype(float), rel=3e-6)


@pytest.mark.long
@pytest.mark.parametrize("name", KEPT)
def test_special_values_are_the_texts_or_nan(name):
    """NaN may stand for an infinity, and an infinity for NaN where row values meet beyond the
    numbers; no NaN stands for the text's number, and no number for its NaN, but where that
    is of weight 0."""
    graph, found = _work(KEPT[name])
    dtypes = {i.name: FLOAT32 for i in graph.inputs}
    kernel = online_kernel(graph, found.final, dtypes)
    pipeline = fg.pipeline(KEPT[name])
    letters = (-INF, -1.0, 0.0, 2.0, INF, np.nan)
    for n in (1, 2, 3):
        rows = np.array(list(itertools.product(letters, repeat=n)), np.float32)
        beside = rows if n < 3 else rows[::13]
        x, y = np.repeat(rows, len(beside), axis=0), np.tile(beside, (len(rows), 1))
        want = np.ravel(pipeline.reference(x, y))
        for tree in (chain(1), balanced(1)):
            replay = RowsReplay(kernel, {"x": x, "y": y}, n)
            replay.run(tree)
            got = replay.env[graph.names[graph.outputs[0]]][:, 0]
            same = np.isclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
            same |= ~np.isfinite(got) & ~np.isfinite(want)
            if name in ("weighed maximum", "below the greatest"):
                same |= np.isnan(want) & ~(np.isfinite(x) & np.isfinite(y)).all(axis=1)
            at = np.flatnonzero(~same)
            assert not len(at), (x[at[0]], y[at[0]], got[at[0]], want[at[0]])
