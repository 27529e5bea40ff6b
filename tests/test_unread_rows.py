"""Texts that go over no row: what they return is known before, or picked out of it."""

from __future__ import annotations

import numpy as np
import pytest
import simt
from support.everywhere import BACKENDS, results
from support.fake_cupy import array

import fusegen as fg

FORMS = ("auto", "safe", "unfused")
X = np.random.default_rng(0).standard_normal((5, 37)).astype("f4")
AT = np.array([1, 36, 37, -1, 0])


@fg.pipeline
def unread(x, t: fg.PerRow):
    n = fg.length(x)
    return fg.take(x, t) * 2, fg.take(x, n - 1) - fg.take(x, t + 1), n, fg.where(t < n, t * 2, -7)


@fg.pipeline
def constant(x):
    return 3.0


@fg.pipeline
def counted(x):
    return fg.length(x)


def wanted():
    def take(at):
        return np.where((at >= 0) & (at < 37), X[range(5), at % 37], np.nan)

    return take(AT) * 2, X[:, -1] - take(AT + 1), np.full(5, 37), np.where(AT < 37, AT * 2, -7)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_runs_them(backend, form):
    for got, want in zip(results(backend, unread, X, AT, form=form), wanted(), strict=True):
        np.testing.assert_allclose(np.broadcast_to(got.squeeze(), 5), want, rtol=1e-6)
    for p, number in ((constant, 3.0), (counted, 37)):
        (got,) = results(backend, p, X, form=form)
        assert set(np.asarray(got).flat) == {number}


@pytest.mark.parametrize("p", [unread, constant, counted], ids=lambda p: p.name)
def test_everything_can_be_asked_of_them(p):
    fg.check(p)
    for target in ("cpu", "sm_80", "sm_100"):
        assert p.name in str(p.explain(target=target))
        for form in FORMS:
            assert p.name in p.source(target, form=form)
            assert str(p.plan(form=form))


@pytest.mark.skipif(simt.available() is not None, reason=str(simt.available()))
def test_columns_are_rows_too(gpu):
    got = unread(array(np.ascontiguousarray(X.T)), array(AT), axis=0)
    for found, want in zip(got, wanted(), strict=True):
        np.testing.assert_allclose(found.get(), want, rtol=1e-6)
