"""Arrays of other libraries, taken and given back in kind: labels, the array API, JAX."""

from __future__ import annotations

import numpy as np
import pytest

import fusegen as fg

L = fg.library
X = np.random.default_rng(0).standard_normal((7, 11)).astype(np.float32)
NAMES = list("abcdefghijk")
ROWS = list(range(10, 17))


def library(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def in_pandas(values=X):
    return library("pandas").DataFrame(values, index=ROWS, columns=NAMES)


def in_xarray(values=X):
    return library("xarray").DataArray(values, dims=("row", "col"),
                                       coords={"row": ROWS, "col": NAMES, "scale": 2})


def in_polars(values=X):
    return library("polars").DataFrame(values, schema=NAMES)


@pytest.mark.parametrize("made", [in_pandas, in_xarray, in_polars])
def test_labels_stay_on_axes_that_stay(made):
    given = made()
    found, total, each = L.softmax(given), L.logsumexp(given), L.logsumexp(given, axis=0)
    np.testing.assert_allclose(np.asarray(found), L.softmax(X), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(total), L.logsumexp(X), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(each).ravel(), L.logsumexp(X, axis=0), rtol=1e-6)
    assert type(found) is type(given)
    assert type(L.topk(given, k=11)[0]) is np.ndarray  # its K have no labels
    match made.__name__:
        case "in_pandas":
            assert list(found.columns) == list(each.index) == NAMES
            assert list(found.index) == list(total.index) == ROWS
            assert type(L.logsumexp(given, keepdims=True)) is np.ndarray
        case "in_xarray":
            assert found.dims == ("row", "col")
            assert list(found["col"]) == list(each["col"]) == NAMES
            assert (total.dims, each.dims) == (("row",), ("col",))
            assert found["scale"] == total["scale"] == 2
            kept = L.logsumexp(given, keepdims=True)
            assert kept.dims == ("row", "col")
            assert "col" not in kept.coords
        case _:
            assert found.columns == each.columns == NAMES
            assert each.shape == (1, 11)
            column = L.softmax(given["b"])
            assert type(column) is type(total) is library("polars").Series
            assert column.name == "b"


@pytest.mark.long
def test_arrays_whose_labels_differ():
    """Kernels go by place: what another library would align is refused."""
    other = X[::-1].copy()
    frame, array = in_pandas(), in_xarray()
    with pytest.raises(fg.ArgumentError, match="scores and values have other labels"):
        L.weighted_mean(frame, in_pandas(other).iloc[::-1])
    with pytest.raises(fg.ArgumentError, match="other labels along row"):
        L.weighted_mean(array, array[::-1])
    with pytest.raises(fg.ArgumentError, match="other dimensions"):
        L.weighted_mean(array[:, :7], array[:, :7].T)
    polars = in_polars()
    with pytest.raises(fg.ArgumentError, match="other labels"):
        L.weighted_mean(polars, polars.select(NAMES[::-1]))
    for given in (frame, array, polars):
        np.testing.assert_allclose(np.asarray(L.weighted_mean(given, given)),
                                   L.weighted_mean(X, X), rtol=1e-6)


@fg.pipeline
def every_kind(x, y, column: fg.PerColumn, row: fg.PerRow):
    return fg.sum(x * y * column) + row


@fg.pipeline
def of_vectors(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, w: fg.PerColumn):
    p = fg.exp(fg.dot(q, k) * w)
    return fg.sum(p * v) / fg.sum(p)


N = 4  # rows, columns and numbers of vectors: what fits by its shape tells no axis from another
AXES = {"x": "rc", "y": "c", "column": "c", "row": "r", "q": "rd", "k": "cd", "v": "ce", "w": "c"}


def named(kind, axes, turned=""):
    """An array whose axes have those labels, the last of them first along `turned`."""
    labels = [np.roll([f"{a}{i}" for i in range(N)], a == turned) for a in axes]
    values = np.arange(N ** len(axes), dtype=np.float32).reshape([N] * len(axes)) / 10
    if kind == "xarray":
        return library(kind).DataArray(values, dict(zip(axes, labels, strict=True)), tuple(axes))
    if kind == "pandas":
        pandas = library(kind)
        return pandas.Series(values, labels[0]) if len(axes) == 1 else pandas.DataFrame(
            values, *labels)
    polars = library(kind)
    return polars.Series(values) if len(axes) == 1 else polars.DataFrame(values, list(labels[1]))


@pytest.mark.parametrize("kind", ["pandas", "xarray", "polars"])
@pytest.mark.parametrize("pipeline", [every_kind, of_vectors])
def test_labels_of_every_kind_of_input(pipeline, kind):
    """Each axis of each input is held against that of all others that is the same to kernels."""
    names = pipeline.signature.arrays
    arrays = [named(kind, AXES[n]) for n in names]
    wanted = pipeline(*map(np.asarray, arrays))
    found = pipeline(*arrays)
    assert (type(found) is np.ndarray) == (pipeline is of_vectors)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)
    for i, name in enumerate(names):
        for axis in AXES[name]:
            shared = [n for n in names if n != name and axis in AXES[n]]
            if kind == "polars":  # it labels the columns of frames alone
                shared = [n for n in shared if AXES[name][1:] == AXES[n][1:] == axis]
            given = [*arrays[:i], named(kind, AXES[name], axis), *arrays[i + 1 :]]
            if not shared:
                pipeline(*given)
                continue
            for call in (pipeline, pipeline.reference):
                with pytest.raises(fg.ArgumentError, match=f"(?s){name}.*other labels"):
                    call(*given)


def test_labels_along_other_axes_and_of_sizes_that_are_broadcast():
    pandas = library("pandas")
    frame, labels = in_pandas(), pandas.Series(np.zeros(11, np.int64), NAMES)
    L.cross_entropy(frame, labels, axis=0)
    with pytest.raises(fg.ArgumentError, match="other labels"):
        L.cross_entropy(frame, labels[::-1], axis=0)
    weight = pandas.Series(np.ones(7, np.float32), ROWS)
    L.rms_norm(frame, weight, axis=0)
    with pytest.raises(fg.ArgumentError, match="other labels"):
        L.rms_norm(frame, weight[::-1], axis=0)
    with pytest.raises(fg.ArgumentError, match="other labels"):
        L.weighted_mean.states(frame, frame[::-1])
    one = pandas.DataFrame(np.ones((1, 11), np.float32), ["any"], NAMES)
    L.weighted_mean(frame, one)
    with pytest.raises(fg.ArgumentError, match="other labels"):
        L.weighted_mean(frame, one[NAMES[::-1]])
    assert L.softmax(pandas.Index(np.float32([1, 2]))).shape == (2,)


def test_what_has_no_values_says_so():
    polars = library("polars")
    frame = in_polars()
    with pytest.raises(fg.ArgumentError, match=r"x\.collect\(\) makes one"):
        L.softmax(frame.lazy())
    lacking = frame.with_columns(polars.lit(None, dtype=polars.Float32).alias("a"))
    with pytest.raises(fg.ArgumentError, match="x lacks 7 values"):
        L.softmax(lacking)
    with pytest.raises(fg.ArgumentError, match="x lacks 7 values"):
        L.softmax(lacking["a"])
    with pytest.raises(fg.ArgumentError, match="get_axis_num"):
        L.softmax(X, axis="col")


def test_the_array_api():
    strict = library("array_api_strict")
    given = strict.asarray(X)
    values, columns = L.topk(given, k=3)
    assert type(values) is type(columns) is type(given)
    assert columns.dtype == strict.int64
    np.testing.assert_array_equal(np.from_dlpack(columns), L.topk(X, k=3)[1])
    out = strict.zeros(X.shape, dtype=strict.float32)
    assert L.softmax(given, out=out) is out
    np.testing.assert_allclose(np.from_dlpack(out), L.softmax(X), rtol=1e-6)


def test_jax():
    jax = library("jax")
    given = jax.numpy.asarray(X, "bfloat16")
    assert L.softmax(given).dtype == given.dtype
    assert isinstance(L.logsumexp(given), jax.Array)
