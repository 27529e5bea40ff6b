"""States whose pipelines return full rows, or take inputs of rows again: each piece of a row gets
its part of them, and the same row values as every other."""

from __future__ import annotations

import numpy as np
import pytest
from support import nvrtc
from support import state_rows as rows
from support.emulated import emulated
from support.state_cases import cuts_of, flat, near
from support.state_rows import CASES, in_pieces, same_as

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend
from fusegen.backend.host.chunks import PIECE_COLUMNS

L = fg.library.PIPELINES


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("where", ["cpu", "numpy"])
def test_any_split(name, where, monkeypatch):
    p, make = CASES[name]
    if where == "numpy":
        monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
        monkeypatch.setattr(p, "traces", type(p.traces)(p, p.signature.arrays, p.signature.fixed))
    rng = np.random.default_rng(5)
    for trial in range(3):
        x = rng.normal(rng.choice([0.0, 30.0]), 3, (5, int(rng.integers(12, 70)))).astype("f4")
        given = make(np.round(x) if trial == 1 else x, rng)
        whole, found = in_pieces(p, given, cuts_of(x.shape[-1], rng))
        assert whole.n_cols == x.shape[-1]
        same_as(found, p.reference(*given), 2e-5)
        for got, want in zip(found[0], flat(p(*given)), strict=True):
            assert got.dtype == want.dtype


@pytest.mark.long
def test_gradients_of_sharded_classes_are_the_calculus():
    """By formulas of their own, in float64."""
    rng = np.random.default_rng(0)
    x, g = rng.normal(0, 4, (6, 50)), rng.normal(0, 1, 6)
    label = rng.integers(0, 50, 6)
    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    spot = np.arange(50) == label[:, None]
    _, loss = in_pieces(L["cross_entropy"], [x, label], [0, 13, 13, 30, 50])
    same_as(loss, -np.log(p[spot]), 1e-12)
    _, back = in_pieces(fg.grad(L["cross_entropy"]), [g, x, label], [0, 13, 13, 30, 50])
    same_as(back, g[:, None] * (p - spot), 1e-12)
    _, back = in_pieces(fg.grad(L["softmax"]), [x, x], [0, 40, 50])
    same_as(back, p * (x - (p * x).sum(-1, keepdims=True)), 1e-12)


def test_gradients_of_weights_by_their_stages():
    """Statistics of rows from every piece, sums over rows where a piece of the columns is."""
    rng, p = np.random.default_rng(4), fg.grad(L["layer_norm"], wrt="weight")
    g, x = rng.normal(0, 1, (2, 6, 40))
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    pieces = [slice(0, 13), slice(13, 40)]
    whole = fg.merge(p.rows, *(p.rows.states(x[:, one], at=one.start) for one in pieces))
    statistics = p.rows.finish(whole)
    found = []
    for one in pieces:
        given = statistics | {"grad": g[:, one], "x": x[:, one]}
        found.append(p.columns(**{n: given[n] for n in p.columns.signature.arrays}, axis=0))
    np.testing.assert_allclose(np.concatenate(found), (g * y).sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_special_values_are_those_of_a_call():
    inf, nan = np.inf, np.nan
    x = np.array([[1, inf, 3, 4], [-inf] * 4, [nan, 1, 2, 3], [-inf, 1, -inf, 2],
                  [-0.0, 0, 0, -0.0], [3e38, -3e38, 1, 2]], np.float32)
    label = np.array([1, 0, 0, 2, 0, 4])
    with np.errstate(all="ignore"):
        for name in ("softmax", "log_softmax", "absmax_quantize"):
            p = L[name]
            _, found = in_pieces(p, [x], [0, 1, 3, 4])
            same_as(found, p(x))
        _, found = in_pieces(L["cross_entropy"], [x, label], [0, 1, 3, 4])
        same_as(found, L["cross_entropy"](x, label))

        @fg.pipeline
        def spot(x, label: fg.PerRow):
            return fg.max(x), fg.take(x, label)

        _, found = in_pieces(spot, [x, label], [0, 1, 3, 4])
        for piece in found:  # bit by bit: the sign of a zero too
            bits = x[np.arange(5), label[:5]].view("i4")
            np.testing.assert_array_equal(piece[1].view("i4")[:5], bits)
            assert np.isnan(piece[1][5])


def test_long_rows_that_threads_share():
    n = 8 * PIECE_COLUMNS + 1000
    x = np.random.default_rng(0).normal(0, 3, (2, n)).astype("f4")
    _, found = in_pieces(L["softmax"], [x], [0, n - 7, n])
    same_as(found, L["softmax"].reference(x))


def test_tensors_and_rows_of_any_shape():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 40)
    p = L["softmax"]
    s = fg.merge(p, p.states(x[..., :11], at=0), p.states(x[..., 11:], at=11))
    left = p.finish(s, x[..., :11])
    assert isinstance(left, torch.Tensor)
    torch.testing.assert_close(torch.cat([left, p.finish(s, x=x[..., 11:], at=11)], -1),
                               torch.softmax(x, -1))
    none = p.states(x[:0])
    assert p.finish(none, x[:0]).shape == (0, 3, 40)


def test_inputs_of_rows_may_come_alone():
    rng = np.random.default_rng(1)
    x, by = rng.normal(0, 3, (4, 20)).astype("f4"), np.array([3, 0, -1, 7])
    for p in (rows.scaled, L["cross_entropy"]):
        s = fg.merge(p, *(p.states(x[:, i : i + 5], by, at=i) for i in range(0, 20, 5)))
        near(p.finish(s, **{p.signature.arrays[1]: by}), p.reference(x, by))
        near(p.finish(s, x[:, 5:10], by, at=5), p.reference(x, by))
    near(p.finish(s), p.reference(x, by))  # the state holds x at the labels


X = np.ones((2, 6), np.float32)


@fg.pipeline
def by_last(x, z):
    return fg.max(x) + fg.take(z, fg.argmax(x))


@fg.pipeline
def by_each(x, label: fg.PerRow):
    return fg.sum(x * fg.take(x, label))


@pytest.mark.parametrize(("make", "kind", "words"), [
    (lambda: L["softmax"].finish(L["softmax"].states(X)), fg.ArgumentError,
     "softmax needs x again to finish\n.*\n  Its result div has a value for every element"),
    (lambda: rows.scaled.finish(rows.scaled.states(X, X[:, 0])), fg.ArgumentError,
     "scaled needs by again to finish\n.*\n  Its results are made of them"),
    (lambda: L["softmax"].finish(L["softmax"].states(X), X.astype("f8")), fg.DTypeError,
     "x has type float64, the states are of one of float32"),
    (lambda: L["softmax"].finish(L["softmax"].states(X), X[:1]), fg.ShapeError,
     r"rows \(1,\) for states of rows \(2,\)"),
    (lambda: L["softmax"].finish(L["softmax"].states(X, at=0), X, at=2), fg.ArgumentError,
     "finished for columns 2 … 7"),
    (lambda: rows.numbered.finish(rows.numbered.states(X), X[:, :3]), fg.ArgumentError,
     "a piece of unknown place"),
    (lambda: L["layer_norm"].finish(L["layer_norm"].states(X), X, X[0]), fg.ArgumentError,
     "made without weight"),
    (lambda: L["softmax"].finish(L["softmax"].states(X), X, eps=3), fg.ArgumentError, "eps"),
    (lambda: by_last.states(X, X), fg.PipelineError, "reads elements when the row is known"),
    (lambda: by_each.states(X, np.zeros(2, "i8")), fg.PipelineError, "reads elements when"),
    (lambda: L["softmax"].source(role="finish"), fg.PipelineError, 'role="map" is what reads'),
    (lambda: L["logsumexp"].source(role="map"), fg.PipelineError, 'role="finish" is what reads'),
])
def test_what_is_missing_is_said(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.long
@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
def test_sources_compile():
    def fits(source, arch):
        for report in nvrtc.compile_for(source, arch).reports:
            assert report.spill_bytes <= 128, (arch, report)

    for name in ("softmax", "listed", "picks"):
        for n_cols in (500, 128_000):
            work = CASES[name][0].work(role="map", target="sm_90", n_cols=n_cols, n_rows=4000)
            assert "states and rows → results" in work.source.splitlines()[0]
            nvrtc.within_budget({"sm_90": work.source}, fits)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("name", ["softmax", "cross_entropy_grad", "listed", "numbered", "picks",
                                  "layer_norm", "kept", "rags"])
def test_gpus_write_what_hosts_write(name, gpu):
    from support import fake_cupy

    p, make = CASES[name]
    rng = np.random.default_rng(3)
    given = make(rng.normal(1, 3, (3, 300)).astype("f4"), rng)
    cuts = [0, 2, 130, 130, 300]
    _, found = in_pieces(fg.pipeline(p.fn) if type(p) is fg.Pipeline else p, given, cuts,
                         lambda a: fake_cupy.array(np.ascontiguousarray(a)))
    same_as(found, p.reference(*given), 2e-5)
