"""Top-K lists in whole pipelines: the least, index types, maths on entries, several at once."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import rows
from support.everywhere import BACKENDS, results

import fusegen as fg


@fg.pipeline
def least(x, *, k=5):
    return fg.topk(x, k, largest=False)


@fg.pipeline
def both_ends(x, *, k=4):
    high, at = fg.topk(x, k)
    low, below = fg.topk(x, k + 1, largest=False, index_dtype="int32")
    return high, at, low, below, fg.max(x), fg.argmin(x, index_dtype="int32"), fg.sum(fg.abs(x))


@fg.pipeline
def least_likely(x, *, k=3):
    return fg.topk(fg.library.softmax(x), k, largest=False)


@fg.pipeline
def maths(x, weight: fg.PerColumn, *, k=6):
    m = fg.max(x)
    p = fg.exp(x - m) / fg.sum(fg.exp(x - m))
    top, at = fg.topk(p, k)
    renormalised = top / fg.sum(top)
    return (
        fg.log(top), renormalised, fg.max(top), fg.min(top), fg.mean(top), fg.prod(top),
        top * fg.take(weight, at) / fg.sum(top * fg.take(weight, at)),
        fg.exp(top - fg.max(top)) / fg.sum(fg.exp(top - fg.max(top))), fg.cast(at, "int32"),
    )


@fg.pipeline
def biased(x, bias: fg.PerColumn, *, k=8, scale=2.5):
    scores = fg.sigmoid(x)
    _, experts = fg.topk(scores + bias, k, index_dtype="int32")
    gates = fg.take(scores, experts)
    return gates / fg.sum(gates) * scale, experts


def hard(dtype, n_cols=501):
    """Rows full of ties, NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (7, n_cols)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, ::3], x[1, ::2], x[2, :] = np.nan, -np.inf, np.nan
        x[3, 3:] = np.inf
        x[3, ::7] = np.nan
        x[4] = np.where(rng.random(n_cols) < 0.5, 0.0, -0.0)
        x[5, 4:300], x[5, 300:] = np.nan, np.inf
        x[6, :8] = [1e-45, -1e-45, 0, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan]
        unsigned = x.view(f"uint{8 * x.itemsize}")
        unsigned[6, 9:11] = np.iinfo(unsigned.dtype).max, np.iinfo(unsigned.dtype).max >> 1  # NaN
    return x


def first(x, k):
    """NumPy sorts NaN last, and stably: the least first, ties to the lowest column."""
    columns = np.argsort(x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, columns, axis=1), columns


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("k", [1, 5, 40, 300, 501])
def test_the_least_are_numpys(k, backend):
    x = hard("float32")
    for found, wanted in zip(results(backend, least, x, k=k), first(x, k), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "uint32"])
def test_the_least_of_every_kind(dtype, backend):
    with np.errstate(over="ignore"):
        whole = np.arange(1503, dtype="uint32").reshape(3, 501) % 7
        x = whole if dtype == "uint32" else hard(dtype)
    if dtype == "int64":
        x[0, :3] = [np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).min]
    for found, wanted in zip(results(backend, least, x, k=9), first(x, 9), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_least_are_those_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rows((4, 50)))
    torch.testing.assert_close(least(x, k=7), tuple(torch.topk(x, 7, largest=False)))


@pytest.mark.long
def test_the_least_of_a_softmax_take_one_sweep():
    assert least_likely.plan().sweeps == 1
    x = rows((5, 90))
    for backend in BACKENDS:
        p, at = results(backend, least_likely, x)
        np.testing.assert_array_equal(at, first(x, 3)[1])
        np.testing.assert_allclose(p, results("reference", least_likely, x)[0], rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("form", ["auto", "safe", "unfused"])
def test_columns_alone(form):
    """Sums that only choose what commutes with them are no part of the result."""
    def softmax(x):
        e = fg.exp(x - fg.max(x))
        return e / fg.sum(e)

    x = np.random.default_rng(5).standard_normal((7, 40))
    texts = {
        "indices": (lambda x: fg.topk(softmax(x), 3).indices, np.argsort(-x)[:, :3]),
        "least": (lambda x: fg.topk(softmax(x), 3, largest=False).indices, np.argsort(x)[:, :3]),
        "argmax": (lambda x: fg.argmax(softmax(x)), x.argmax(1)),
        "with a sum": (lambda x: fg.argmax(softmax(x)) + fg.logsumexp(x) * 0, x.argmax(1)),
    }
    for name, (text, wanted) in texts.items():
        np.testing.assert_array_equal(fg.pipeline(text)(x, form=form), wanted, err_msg=name)


@pytest.mark.parametrize("form", ["online", "safe", "unfused"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_several_lists_and_other_reductions(backend, form):
    if (backend, form) != ("reference", "online") and backend == "reference":
        return
    x = hard("float32")
    found = results(backend, both_ends, x, **({} if backend == "reference" else {"form": form}))
    wanted = results("reference", both_ends, x)
    if backend != "reference":  # which computes in wide types
        assert [f.dtype.name for f in found if f.dtype.kind == "i"] == ["int64", "int32", "int32"]
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-6)
    np.testing.assert_array_equal(found[3], first(x, 5)[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_maths_on_entries(backend):
    x, weight = rows((5, 130)), np.linspace(-1, 2, 130, dtype="float32")
    found, wanted = (results(b, maths, x, weight) for b in (backend, "reference"))
    assert found[-1].dtype == np.int32 or backend == "reference"
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=2e-6)
    assert maths.plan().sweeps == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_cols", [8, 144, 160, 288])
def test_gates_of_other_scores_than_those_that_select(n_cols, backend):
    rng = np.random.default_rng(n_cols)
    x, bias = rows((6, n_cols), 1), rng.normal(0, 0.3, n_cols).astype("float32")
    scores = 1 / (1 + np.exp(-x.astype("float64")))
    at = np.argsort(-(scores + bias), axis=1, kind="stable")[:, :8]
    gates = np.take_along_axis(scores, at, axis=1)
    found = results(backend, biased, x, bias)
    np.testing.assert_array_equal(found[1], at)
    np.testing.assert_allclose(found[0], gates / gates.sum(1, keepdims=True) * 2.5, rtol=2e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_folds_of_formulas(backend):
    """What a fold takes is one operand, however loosely its formula binds."""

    @fg.pipeline
    def folds(x, y, *, k=5):
        v, _ = fg.topk(fg.where(x > 0, x, y), k)
        return (
            fg.sum(fg.where(x > 0, x, y)), fg.sum(x - y), fg.prod(x + 1), fg.prod(x / y),
            fg.prod(fg.where(x > 0, 1, 2)), fg.count(x > y), fg.prod(v + 1), fg.sum(v - 1),
            fg.sum(fg.where(v > 1, v, 3)), fg.prod(fg.where(v > 1, v, 3)), v,
        )

    x, y = rows((4, 21)) / 9, rows((4, 21), 1) / 9 + 1
    both = (results(b, folds, x, y) for b in (backend, "reference"))
    for found, wanted in zip(*both, strict=True):
        np.testing.assert_allclose(found.reshape(4, -1), wanted.reshape(4, -1), rtol=2e-5)


@pytest.mark.parametrize("form", ["auto", "unfused"])
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_taking_from_another_array(backend, form):
    @fg.pipeline
    def attended(scores, values, *, k=4):
        p = fg.library.softmax(scores)
        top, at = fg.topk(p, k)
        return fg.sum(top * fg.take(values * 2, at)), fg.take(values, at), at

    scores, values = rows((5, 77)), rows((5, 77), 1)
    total, taken, at = results(backend, attended, scores, values, form=form)
    np.testing.assert_array_equal(at, np.argsort(-scores, axis=1, kind="stable")[:, :4])
    np.testing.assert_array_equal(taken, np.take_along_axis(values, at, axis=1))
    wanted = results("reference", attended, scores, values)[0]
    np.testing.assert_allclose(total.ravel(), wanted.ravel(), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("k", [1, 4])
def test_taking_from_two_arrays(k, backend):
    """Each is looked up by itself, however alike the lines are that do so."""
    @fg.pipeline
    def factors(x, y, *, k=1):
        _, at = fg.topk(x * y, k)
        return fg.take(x, at), fg.take(y, at), fg.take(x + 1.0, at)

    x, y = rows((5, 77)), rows((5, 77), 1)
    at = np.argsort(-(x * y), axis=1, kind="stable")[:, :k]
    found = results(backend, factors, x, y, k=k)
    for got, want in zip(found, (x, y, x + 1), strict=True):
        np.testing.assert_array_equal(got, np.take_along_axis(want, at, axis=1))


def test_taking_what_was_selected_reads_nothing_again():
    @fg.pipeline
    def taken(x, *, k=3):
        values, at = fg.topk(x, k, index_dtype="int32")
        return values, fg.take(x, at)

    assert len(set(taken.traced(frozenset("x"), {"k": 3}).graph.outputs)) == 1


@pytest.mark.parametrize("pipeline", [least, both_ends])
@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_any_axis(pipeline, axis):
    x = rows((6, 7, 8))
    found = pipeline(x, k=4, axis=axis)
    wanted = pipeline.reference(x, k=4, axis=axis)
    for f, w in zip(found, wanted, strict=True):
        assert f.shape == w.shape
        np.testing.assert_allclose(f, w, rtol=1e-6)
    assert found[0].shape == tuple(4 if i == axis % 3 else n for i, n in enumerate(x.shape))


def test_maths_on_entries_along_axis_0():
    x, weight = rows((130, 5)), np.linspace(-1, 2, 130, dtype="float32")
    for f, w in zip(maths(x, weight, axis=0), maths(x.T.copy(), weight), strict=True):
        np.testing.assert_array_equal(f, w.T if w.ndim == 2 else w)


# ---- what is refused ----


def test_k_above_the_columns():
    with pytest.raises(fg.ShapeError, match=r"topk of 5 in rows with 4 columns") as error:
        least(rows((3, 4)))
    assert "test_lists.py" in str(error.value)
    assert "k ≤ 4" in str(error.value)
    with pytest.raises(fg.ShapeError, match="topk of 5"):
        least.reference(rows((3, 4)))
    with pytest.raises(fg.ShapeError, match="topk of 5"):
        least.compile(rows((3, 4)))


def test_columns_that_do_not_fit_the_type():
    @fg.pipeline
    def narrow(x):
        return fg.argmax(x, index_dtype="int8")

    assert narrow(rows((2, 128))).dtype == np.int8
    with pytest.raises(fg.ShapeError, match="int8 column numbers for rows with 129 columns"):
        narrow(rows((2, 129)))


def test_arguments_of_topk():
    def traced(**more):
        return fg.pipeline(lambda x: fg.topk(x, **more)).source("cpu")

    with pytest.raises(fg.TraceError, match="topk's k must be a whole number"):
        traced(k=0)
    with pytest.raises(fg.TraceError, match="largest must be True or False"):
        traced(k=1, largest=0)
    with pytest.raises(fg.TraceError, match="integer type"):
        traced(k=1, index_dtype="float32")
    with pytest.raises(fg.DTypeError, match="not supported"):
        traced(k=1, index_dtype="int128")


def test_argmax_of_a_list_is_refused():
    @fg.pipeline
    def wrong(x):
        return fg.argmax(fg.topk(x, 3)[0])

    with pytest.raises(fg.TraceError, match="argmax of a top-K list"):
        wrong(rows())
