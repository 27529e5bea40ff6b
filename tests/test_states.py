"""States as values: any split of a row, any order, the same result as of the whole row."""

from __future__ import annotations

import itertools
import math
import pickle

import ml_dtypes
import numpy as np
import pytest
from support import state_cases as cases
from support import state_rows
from support.state_cases import arguments, flat, merged_anyhow, near

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend
from fusegen.backend.host.chunks import PIECE_COLUMNS
from fusegen.ir.dtypes import FLOAT32
from fusegen.ir.state_layout import state_layout

L = fg.library.PIPELINES
PIPELINES: dict[str, fg.Pipeline] = {n: fg.Pipeline(t) for n, t in cases.TEXTS.items()}


@pytest.fixture(params=["cpu", "numpy"])
def roles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What runs: the processor's own code, or NumPy, as where nothing can be compiled."""
    for name, text in cases.TEXTS.items():
        monkeypatch.setitem(PIPELINES, name, fg.Pipeline(text))
    if request.param == "numpy":
        monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    return str(request.param)


def pieces(name: str, x: np.ndarray, cuts: list[int]) -> list[fg.States]:
    return cases.pieces(PIPELINES[name], arguments(name, x), cuts)


def test_every_library_pipeline_that_has_states_is_tested():
    def has_states(p: fg.Pipeline) -> bool:
        try:
            return bool(p.work(role="merge", target="cpu").program)
        except fg.PipelineError:
            return False

    assert {n for n, p in L.items() if has_states(p)} == {*cases.LIBRARY, *state_rows.LIBRARY}
    assert {*L} == {*cases.LIBRARY, *state_rows.LIBRARY}


@pytest.mark.parametrize("name", PIPELINES)
def test_any_split_in_any_order(name, roles):
    """Of doubles in every second text; in float32 `test_states_cuda` has them all."""
    rng, p = np.random.default_rng(7), PIPELINES[name]
    doubles = [*PIPELINES].index(name) % 2 == 0
    for trial in range(12):
        n = int(rng.integers(12, 90))
        kind = "f8" if doubles and trial % 3 == 0 else "f4"
        x = rng.normal(rng.choice([0.0, 50.0]), 3, (3, n)).astype(kind)
        if trial % 4 == 1:
            x = np.round(x)  # ties
        given = arguments(name, x)
        cuts = sorted([0, n, *rng.integers(0, n + 1, int(rng.integers(0, 6)))])
        got = p.finish(merged_anyhow(p, pieces(name, x, cuts), rng))
        near(got, p.reference(*given))
        for g, w in zip(flat(got), flat(PIPELINES[name](*given)) if roles == "cpu" else (),
                        strict=roles == "cpu"):
            assert g.dtype == w.dtype


@pytest.fixture
def called(name: str) -> object:
    """What a call makes of hard rows where it can be compiled: asked for before that is patched."""
    x = cases.hard_rows()
    with np.errstate(all="ignore"):
        return fg.Pipeline(L[name].fn).compile(x, target="cpu")(x)


@pytest.mark.parametrize("name", cases.HARD_TEXTS)
def test_special_values_are_those_of_a_call(name, called, roles):
    p, x, rng = PIPELINES[name], cases.hard_rows(), np.random.default_rng(2)
    with np.errstate(all="ignore"):
        for _ in range(20):
            cuts = sorted([0, 8, *rng.integers(0, 9, 3)])
            near(p.finish(merged_anyhow(p, pieces(name, x, cuts), rng)), called)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64", "int32", "int64"])
def test_types(dtype):
    x = np.random.default_rng(0).normal(0, 20, (5, 40)).astype(dtype)
    for name in ("topk", "argmax"):
        p = PIPELINES[name]
        states = fg.merge(p, *reversed(pieces(name, x, [0, 13, 40])))
        for g, w in zip(flat(p.finish(states)), flat(p(x)), strict=True):
            np.testing.assert_array_equal(g, w)
            assert g.dtype == w.dtype


@pytest.mark.parametrize("k", [1, 9, 64])
def test_lists_of_any_length(roles, k):
    rng, p = np.random.default_rng(k), PIPELINES["softmax_topk"]
    x = np.round(rng.normal(0, 9, (3, 400))).astype("f4")  # ties
    parts = cases.pieces(p, [x], [0, 5, 200, 201, 400], k=k)
    values, at = p.finish(merged_anyhow(p, parts, rng))
    want = p.reference(x, k=k)
    np.testing.assert_allclose(values, want[0], rtol=2e-6)
    np.testing.assert_array_equal(at, want[1])


def test_rows_longer_than_a_thread_folds_at_once():
    n = 8 * PIECE_COLUMNS + 1000
    x = np.random.default_rng(0).normal(0, 3, (2, n)).astype("f4")
    for name in ("logsumexp", "argmax", "var_mean"):
        p = PIPELINES[name]
        near(p.finish(fg.merge(p, *reversed(pieces(name, x, [0, n - 7, n])))), p.reference(x))


@pytest.mark.parametrize("name", [*PIPELINES, "ends"])
def test_every_maker_of_states_makes_the_same_bytes(name, monkeypatch):
    """Folded, merged and finished in C++ and in NumPy: each may take over from the other."""
    text = cases.TEXTS.get(name, cases.ends)
    p, other = fg.pipeline(text), fg.pipeline(text)
    x = np.random.default_rng(5).normal(1, 3, (3, 60)).astype("f4")
    given = arguments(name, x)
    ours = cases.pieces(p, given, [0, 2, 2, 31, 60])
    whole = fg.merge(p, *ours)
    results = p.finish(whole)
    monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    theirs = cases.pieces(other, given, [0, 2, 2, 31, 60])
    for a, b in zip(ours, theirs, strict=True):
        cases.same_states(a, b)
    cases.same_states(whole, fg.merge(other, *ours))
    mixed = fg.merge(other, ours[0], theirs[1], theirs[2], ours[3])
    cases.same_states(whole, mixed)
    near(other.finish(whole), results)
    near(other.finish(mixed), p.reference(*given))


def test_states_are_of_the_kind_and_rows_of_their_arrays():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 20)
    p = L["softmax_topk"]
    a, b = p.states(x[..., :11], k=2), p.states(x[..., 11:], at=11, k=2)
    assert isinstance(a.array, torch.Tensor)
    assert a.array.dtype is torch.uint8
    assert tuple(a.array.shape) == (2, 3, a.layout.n_bytes)
    values, at = p.finish(fg.merge(p, b, a))
    want = p(x, k=2)
    torch.testing.assert_close(values, want[0])
    assert torch.equal(at, want[1])


def test_ordered_monoids_merge_in_the_order_of_columns(roles):
    p, x = fg.pipeline(cases.ends), np.arange(30, dtype="f4").reshape(2, 15)
    a, b, c = cases.pieces(p, [x], [0, 4, 4, 15])
    for parts in ([a, b, c], [c, b, a], [b, c, a]):
        near(p.finish(fg.merge(p, *parts)), (x[:, 0], x[:, -1]))
    a, b, c = cases.pieces(p, [x], [0, 4, 9, 15])
    with pytest.raises(fg.ArgumentError, match="on both sides of others"):
        fg.merge(p, fg.merge(p, a, c), b)


def test_a_column_is_counted_once():
    x = np.ones((2, 6), np.float32)
    for p in (L["argmax"], fg.pipeline(cases.ends)):  # states that depend on where the piece was
        with pytest.raises(fg.ArgumentError, match="seen the same columns: 0 … 5"):
            fg.merge(p, p.states(x), p.states(x))
    p = L["logsumexp"]
    a, b, c, d = (p.states(x, at=at) for at in (6, 0, 17, 12))
    assert fg.merge(p, p.states(x), p.states(x), a).columns == ((6, 12),)  # of the rest nobody said
    both = fg.merge(p, a, b)
    assert (both.columns, fg.merge(p, both, c).columns) == (((0, 12),), ((0, 12), (17, 23)))
    with pytest.raises(fg.ArgumentError, match="seen the same columns: 17 … 17"):
        fg.merge(p, fg.merge(p, both, c), d)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_states_in_one_array_merge_where_they_are(kind):
    """What an all-gather leaves."""
    place = np.asarray if kind == "numpy" else pytest.importorskip("torch").from_numpy
    stack = np.stack if kind == "numpy" else pytest.importorskip("torch").stack
    x = np.random.default_rng(3).normal(0, 3, (2, 3, 40)).astype("f4")
    cuts = [0, 13, 13, 30, 40]
    for text in (cases.TEXTS["many"], cases.ends):
        p = fg.pipeline(text)
        given = [x, *([np.linspace(-1, 1, 40).astype("f4")] if text is not cases.ends else [])]
        parts = cases.pieces(p, given, cuts, place)
        spans = [(i, j) for i, j in itertools.pairwise(cuts)]
        for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
            found = fg.merge_gathered(p, parts[0], stack([parts[i].array for i in order]),
                                      [spans[i] for i in order])
            assert (found.n_cols, found.columns) == (40, ((0, 40),))
            near(p.finish(found), p.reference(*given))
    with pytest.raises(fg.ShapeError, match="These are 3 parts"):
        fg.merge_gathered(p, parts[0], stack([s.array for s in parts]), spans[:3])


def test_the_layout_is_data():
    p = L["softmax_topk"]
    kernel = p.work(k=3).program.kernels[0]
    layout = state_layout(kernel.sweeps[0].monoid, FLOAT32)
    states = p.states(np.eye(4, dtype="f4"), k=3)
    assert states.layout == layout
    found = [(f.name, f.dtype.name, f.count, f.offset) for f in layout.fields]
    assert found == [("m", "float32", 1, 0), ("sum_exp", "float32", 1, 4),
                     ("top_value", "float32", 3, 8), ("top_column", "int64", 3, 24)]
    assert layout.n_bytes == 48
    table = states.array.view(layout.numpy)[:, 0]
    np.testing.assert_array_equal(table["m"][:, 0], 1)
    np.testing.assert_array_equal(table["top_column"][0], [0, 1, 2])
    assert repr(states).startswith("<states of softmax_topk: rows (4,), 4 columns seen, m float32")
    few = p.states(np.eye(4, dtype="f4")[:, :1], at=9, k=3)
    np.testing.assert_array_equal(few.array.view(layout.numpy)[0, 0]["top_column"], [9, -1, -1])


def test_states_may_be_shipped():
    p, x = L["var_mean"], np.random.default_rng(1).normal(5, 1, (3, 40)).astype("f4")
    parts = [pickle.loads(pickle.dumps(s)) for s in pieces("var_mean", x, [0, 9, 40])]
    near(p.finish(fg.merge(p, *parts)), p.reference(x))


X = np.ones((2, 6), np.float32)


@fg.pipeline
def weighed(x, *, c=0.5):
    return fg.sum(x) * c


@pytest.mark.parametrize("a", [0.0, -0.0, 1, 1.0, True, math.nan], ids=repr)
def test_constants_of_states_are_told_apart_as_those_of_calls(a):
    """By class and exact value."""
    for b in (0.0, -0.0, 1, 1.0, True, math.nan):
        parts = [weighed.states(X, c=c) for c in (a, b)]
        if repr(a) == repr(b):
            assert fg.merge(weighed, *parts).n_cols == 2 * X.shape[-1]
        else:
            with pytest.raises(fg.ArgumentError, match="do not belong together"):
                fg.merge(weighed, *parts)


@fg.pipeline
def apart(x):
    m = fg.mean(x)
    return fg.sum(fg.where(x > m, fg.exp(x), 0.0))


@fg.pipeline
def counted(x):
    return fg.sum(x * fg.length(x))


@fg.pipeline
def halved(x):
    half = fg.length(x) / 2
    return fg.sum(fg.where(fg.index(x) < half, x / half, 0))


@fg.pipeline
def offset(x, *, at=0):
    return fg.sum(x) + at


@pytest.mark.parametrize(("make", "kind", "words"), [
    (lambda: offset.states(X, at=3), fg.ArgumentError, "has a constant at, and states an argument"),
    (lambda: offset.accumulator(at=3), fg.ArgumentError, "has a constant at"),
    (lambda: apart.states(X), fg.PipelineError, "keeps a sweep of its own"),
    (lambda: counted.states(X), fg.PipelineError, "computed from the number of columns"),
    (lambda: halved.states(X), fg.PipelineError, "computed from the number of columns"),
    (lambda: L["topk"].states(X, at=-1), fg.ArgumentError, "at"),
    (lambda: fg.merge(L["topk"]), fg.ArgumentError, "no states"),
    (lambda: fg.merge(L["topk"], X), fg.ArgumentError, "ndarray, no states"),
    (lambda: L["topk"].finish(X), fg.ArgumentError, "ndarray, no states"),
    (lambda: fg.merge(L["topk"], L["topk"].states(X), L["topk"].states(X, k=2)), fg.ArgumentError,
     "do not belong together"),
    (lambda: fg.merge(L["topk"], L["topk"].states(X, at=9), L["topk"].states(X.astype("f2"))),
     fg.ArgumentError, "x float32, .*another .*x float16"),
    (lambda: L["topk"].states(X, at=2**63 - 5), fg.ArgumentError, "rows have at most 2"),
    (lambda: fg.merge_gathered(L["topk"], L["topk"].states(X), L["topk"].states(X).array[None],
                               [(100, 0)]), fg.ArgumentError, "columns 100 … -1"),
    (lambda: L["topk"].accumulator().merge(
        L["argmax"].accumulator()), fg.ArgumentError, "argmax"),
    (lambda: fg.merge(L["topk"], L["topk"].states(X), L["topk"].states(X[:1])), fg.ShapeError,
     "cannot be merged"),
    (lambda: L["argmax"].finish(L["topk"].states(X)), fg.ArgumentError, "is not of argmax"),
    (lambda: L["topk"].finish(L["topk"].states(X, k=7)), fg.ShapeError, "topk of 7"),
    (lambda: L["argmax"].finish(L["argmax"].states(X[:, :0])), fg.ShapeError, "no column"),
    (lambda: L["norm2"].finish(L["logsumexp"].states(X)), fg.ArgumentError, "another operator"),
])
def test_what_has_no_states_says_why(make, kind, words):
    with pytest.raises(kind, match=words):
        make()




@pytest.mark.parametrize("p", [fg.library.topk, fg.library.argmax])
def test_columns_that_their_type_has_no_number_for_are_refused(p):
    x = np.zeros((2, 8), np.float32)
    x[:, -1] = 1
    k = {"k": 1} if p is fg.library.topk else {}
    found = p.finish(p.states(x, index_dtype="int8", at=120, **k))
    assert (np.asarray(found[1] if k else found).ravel() == 127).all()
    with pytest.raises(fg.ShapeError, match="The last column is 128, int8 ends at 127"):
        p.states(x, index_dtype="int8", at=121, **k)
