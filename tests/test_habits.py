"""What simply works: numbers of every library, conditions and whole numbers in arithmetic, axes,
arrays of every kind, methods and partials, copies and pickles."""

from __future__ import annotations

import copy
import cProfile
import functools
import multiprocessing
import pickle
import sys
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import simt.toolchain
from support.everywhere import BACKENDS, results

import fusegen as fg

pytestmark = pytest.mark.usefixtures("served_by")

lib = fg.library
MADE = np.random.default_rng(0)
X = MADE.standard_normal((7, 50)).astype("f4")
INPUTS = {
    "float": X, "double": X.astype("f8"), "int": MADE.integers(-50, 50, X.shape).astype("i4"),
    "byte": MADE.integers(0, 9, X.shape).astype("u1"), "bool": MADE.random(X.shape) < 0.5,
}


NUMBERS = {  # in fusegen, in NumPy float64
    "NumPy float left": (lambda a, b: np.sqrt(2) * a, lambda a, b: np.sqrt(2) * a),
    "NumPy float32 right": (lambda a, b: a - np.float32(0.5), lambda a, b: a - 0.5),
    "NumPy int": (lambda a, b: np.int64(3) + a, lambda a, b: 3 + a),
    "no axes": (lambda a, b: np.array(3.0) / (b + 20), lambda a, b: 3 / (b + 20.0)),
    "NumPy comparison": (lambda a, b: np.float64(0.5) < a, lambda a, b: a > 0.5),
    "ufuncs": (lambda a, b: np.exp(a * 0.1) + np.maximum(a, b), lambda a, b: np.exp(a * 0.1)
               + np.maximum(a, b)),
    "scale": (lambda a, b: 0.2 * a + b, lambda a, b: 0.2 * a + b),
    "mean": (lambda a, b: fg.mean(a), lambda a, b: np.mean(a, 1)),
    "var": (lambda a, b: fg.var(a), lambda a, b: np.var(a, 1)),
    "masked": (lambda a, b: fg.sum(a * (b > 0)), lambda a, b: np.sum(a * (b > 0), 1)),
    "counted": (lambda a, b: fg.sum(a > 0), lambda a, b: np.sum(a > 0, 1)),
    "share": (lambda a, b: fg.mean(a > 0) + 0.2 * fg.count(b > 0),
              lambda a, b: np.mean(a > 0, 1) + 0.2 * np.sum(b > 0, 1)),
    "differ": (lambda a, b: (a > 0) != (b > 0), lambda a, b: (a > 0) != (b > 0)),
    "agree": (lambda a, b: (a > 0) == (b > 0), lambda a, b: (a > 0) == (b > 0)),
    "either": (lambda a, b: (a > 0) ^ (b > 0), lambda a, b: (a > 0) ^ (b > 0)),
    "slope": (lambda a, b: fg.sum(0.01 * a * (fg.index(a) - fg.argmax(b * 1))),
              lambda a, b: np.sum(0.01 * a * (np.arange(50) - np.argmax(b, 1)[:, None]), 1)),
    "chosen": (lambda a, b: fg.sum(fg.where(a > 0, b > 1, 2.5)),
               lambda a, b: np.sum(np.where(a > 0, b > 1, 2.5), 1)),
    "root": (lambda a, b: fg.sqrt(abs(a)) + round(b * 0.3), lambda a, b: np.sqrt(np.abs(a))
             + np.rint(b * 0.3)),
    "about the mean": (lambda a, b: fg.mean((a - fg.mean(a)) * (b - fg.mean(b))), lambda a, b:
                       np.mean((a - a.mean(1, keepdims=True)) * (b - b.mean(1, keepdims=True)), 1)),
}


@fg.pipeline
def every(a, b):
    return {name: texts[0](a, b) for name, texts in NUMBERS.items()}


@pytest.mark.parametrize("target", [None, "numpy"])
@pytest.mark.parametrize(("one", "other"), [("float", "bool"), ("int", "float"), ("bool", "double"),
                                            ("byte", "int"), ("int", "bool")])
def test_numbers_are_promoted_as_numpys(one, other, target):
    a, b = INPUTS[one], INPUTS[other]
    found = every.compile(a, b, target=target)(a, b)
    wide = "double" in (one, other)
    for name, (_, by_numpy) in NUMBERS.items():
        with np.errstate(divide="ignore"):  # 3 / (b + 20) of a b of -20
            right = by_numpy(*(x if x.dtype == bool else x.astype("f8") for x in (a, b)))
        np.testing.assert_allclose(found[name], right, rtol=1e-4, atol=1e-4, err_msg=name)
        assert wide or found[name].dtype != np.float64, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["auto", "safe"])
def test_whole_powers_of_integers_are_integers(backend, form, monkeypatch):
    """As x·x and NumPy's: exact, also where float32 has no such number, and to 0 and 1."""
    # Lanes without a row have the least number instead, whose powers overflow and are not used.
    monkeypatch.setattr(simt.toolchain, "LEVEL", "-O1")
    some = np.random.default_rng(1).integers(-1000, 1000, (3, 40))
    x = np.concatenate([some, np.zeros((1, 40))]).astype("i4")
    wide, top = x.astype("i8"), x.max(1, keepdims=True).astype("i8")
    for power in (0, 1, 2, 3, 5):
        def text(x, *, power):
            m = fg.max(x)
            return x**power, fg.sum(x**power), m**power, fg.sum((x - m) ** np.int16(power))

        rights = (wide**power, (wide**power).sum(1), top[:, 0] ** power,
                  ((wide - top) ** power).sum(1))
        found = results(backend, fg.pipeline(text), x, form=form, power=power)
        for got, right in zip(found, rights, strict=True):
            assert got.dtype == np.int64
            np.testing.assert_array_equal(got, right, err_msg=str(power))


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_powers_of_integers_are_floats(backend):
    x = np.random.default_rng(1).integers(1, 9, (3, 40))
    text = fg.pipeline(lambda x: (x**-1, x**2.0, x**0.5, 2**x, x**x, (x * 1.0) ** 2))
    rights = (1 / x, x**2.0, x**0.5, 2.0**x, x.astype(float) ** x, x**2.0)
    for got, right in zip(results(backend, text, x), rights, strict=True):
        assert got.dtype.kind == "f"
        np.testing.assert_allclose(got, right, rtol=1e-6)


def test_gradients_go_through_whole_powers_of_integers():
    def text(x, n: fg.PerRow):
        return fg.sum(x * n**3) + fg.sum((x * fg.index(x) ** 2) ** 2)

    x, n, g = INPUTS["float"], np.arange(7), np.ones(7, "f4")
    backward = fg.grad(fg.pipeline(text), wrt="x")
    for found in (backward(g, x, n), backward.reference(g, x, n)):
        np.testing.assert_allclose(found, n[:, None] ** 3 + 2 * x * np.arange(50.0) ** 4, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_exact_mean_of_integers(backend):
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    x = np.array([[least, most, 1, 0, most, least]], np.int32)
    text = fg.pipeline(lambda x: fg.cast(fg.sum(x), "float32") / fg.length(x))
    np.testing.assert_allclose(results(backend, text, x)[0], [-1 / 6], rtol=1e-6)


@pytest.mark.parametrize("source", [*INPUTS, "i8"])
@pytest.mark.parametrize("target", [float, int, bool, np.float32, np.float64, "float32", "int64"])
def test_types_are_named_as_numpys(source, target):
    x = INPUTS[source] if source in INPUTS else INPUTS["int"].astype("i8") << 40
    found = fg.pipeline(lambda x: fg.cast(x, target))(x)
    assert found.dtype == x.astype(target).dtype
    np.testing.assert_array_equal(found, x.astype(target))


AXES = [None, 0, -1, (0, 1), (0, 2), (3, 1), [2, 3], (0, 1, 2, 3), np.int64(1),
        np.array([0]), np.array([0, 2])]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_axes_are_numpys(axis, keepdims):
    # Numbers of its own: of those that hang on the order of tests some add up to nearly nothing.
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype("f4")
    axes = tuple(axis) if isinstance(axis, list | np.ndarray) else axis
    greatest = x.astype("f8").max(axis=axes, keepdims=True)
    total = np.exp(x - greatest).sum(axis=axes, keepdims=True)
    right = greatest + np.log(total)
    shape = np.sum(x, axis=axes, keepdims=keepdims).shape
    found = lib.logsumexp(x, axis=axis, keepdims=keepdims)
    assert found.shape == shape
    np.testing.assert_allclose(found, right.reshape(shape), rtol=1e-5)
    out = np.empty(shape, "f4")
    assert lib.logsumexp(x, axis=axis, keepdims=keepdims, out=out) is out
    np.testing.assert_array_equal(out, found)
    strided = np.empty((5, 4, 3, 2), "f4").T
    assert lib.softmax(x, axis=axis, out=strided) is strided
    np.testing.assert_allclose(strided, np.exp(x - right), rtol=1e-4)
    values, indices = lib.topk(x, k=2, axis=axis, keepdims=keepdims)
    reduced = sorted(a % 4 for a in (range(4) if axes is None else np.atleast_1d(axes)))
    moved = np.moveaxis(x, reduced, range(4 - len(reduced), 4))
    flat = moved.reshape(*moved.shape[: 4 - len(reduced)], -1)
    place = reduced[-1] if keepdims else reduced[-1] - len(reduced) + 1
    kept = [a for a in reduced[:-1] if keepdims]
    columns = np.expand_dims(np.argsort(-flat, axis=-1, kind="stable")[..., :2], ())
    columns = np.moveaxis(columns, -1, reduced[-1] - len(reduced) + 1)
    np.testing.assert_array_equal(indices, np.expand_dims(columns, kept))
    assert values.shape == indices.shape
    assert values.shape[place] == 2


def test_flags_are_numpys_too():
    yes, no = X.max() > 0, X.max() < 0
    assert type(yes) is np.bool_
    assert lib.logsumexp(X, keepdims=yes, deterministic=no).shape == (7, 1)
    made = lib.logsumexp.compile(X, deterministic=yes)
    assert made.choices.deterministic is True
    assert made(X, keepdims=no).shape == (7,)


def test_per_column_inputs_have_the_reduced_axes_and_values_of_one_row_none():
    x, weight = MADE.standard_normal((2, 4, 5)), MADE.standard_normal((4, 5))
    flat = lib.rms_norm(x.reshape(2, 20), weight.ravel())
    np.testing.assert_array_equal(lib.rms_norm(x, weight, axis=(1, 2)), flat.reshape(x.shape))
    row, loss = X[0], lib.cross_entropy
    for label in (3, np.int64(3), np.array(3)):
        assert loss(row, label) == loss(X[:1], np.array([3]))[0]
    assert loss(X, np.zeros((7, 1), int)).shape == (7,)  # as keepdims leaves it
    out = np.empty((), "f4")
    assert lib.logsumexp(row, out=out) is out


Pair = namedtuple("Pair", ["low", "high"])


def test_results_are_nested_as_they_were_returned():
    @fg.pipeline
    def nested(x):
        return [fg.sum(x), {1: fg.max(x), "1": Pair(fg.min(x), fg.max(x))}, fg.topk(x, np.int8(2))]

    total, named, top = nested(X)
    assert list(named) == [1, "1"]
    assert isinstance(named["1"], Pair)
    np.testing.assert_array_equal(named["1"].low, X.min(1))
    np.testing.assert_array_equal(top.indices, np.argsort(-X, 1)[:, :2])
    out = [np.empty_like(total), {1: None, "1": (None, None)}, None]
    assert nested(X, out=out)[0] is out[0]


class Speaks:
    """An array of some library that NumPy can read."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


class Standard(Speaks):
    """One of a library of the array API standard, such as JAX, without 64-bit integers."""

    dtype = property(lambda self: self.values.dtype)

    def __array_namespace__(self):
        return Standard

    @staticmethod
    def asarray(values):
        return Standard(values.astype("i4") if values.dtype == np.int64 else values)


def test_arrays_of_every_kind():
    right = lib.softmax(X)
    for given in (Speaks(X), memoryview(X), X.tolist(), tuple(map(tuple, X.tolist()))):
        found = lib.softmax(given)
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, right, rtol=1e-5)
    values, indices = lib.topk(Standard(X), k=3)
    assert type(values) is type(indices) is Standard
    np.testing.assert_array_equal(indices.values, np.argsort(-X, 1)[:, :3])
    with pytest.raises(fg.DTypeError, match="does not hold the result"):
        fg.pipeline(lambda x: fg.sum(x))(Standard(np.full((2, 3), 2**40)))


def test_parameters_without_gradients():
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.from_numpy(X.copy()))
    with torch.no_grad():
        assert torch.equal(lib.softmax(weight), lib.softmax(weight.detach()))


def test_functions_of_torch_are_refused_at_the_line_of_the_text():
    """Also those that are written in Python, in torch's own files."""
    torch = pytest.importorskip("torch")
    relu, weights = torch.nn.functional.relu, torch.ones(3)
    for fn in (lambda x: torch.exp(x), lambda x: relu(x), lambda x: x * weights):
        with pytest.raises(fg.TraceError) as caught:
            fg.pipeline(fn)(X)
        line = fn.__code__.co_firstlineno
        assert (caught.value.where.file, caught.value.where.line) == (__file__, line)


# ---- methods, partials, callable objects; copies ----


@fg.pipeline
def greatest(x, *, k=2):
    return fg.topk(x, k)


@dataclass
class Scaled:
    by: float
    softmax = lib.softmax  # no method: it was written elsewhere

    @fg.pipeline
    def total(self, x):
        return fg.sum(self.by * x)

    @fg.pipeline
    def twice(self, x):
        return 2 * self.total(x)

    @staticmethod
    @fg.pipeline
    def top(x):
        return fg.max(x)

    def __call__(self, x, *, power=1):
        return fg.sum(x * self.by) ** power


def listed(x, *, k, by=1.0):
    return fg.topk(x * by, k).values


first = fg.pipeline(functools.partial(listed, k=1))
called = fg.pipeline(Scaled(3.0))
total = X.astype("f8").sum(1)


def near(found, right):
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_methods_partials_and_objects_are_pipelines():
    two, five = Scaled(2.0), Scaled(5.0)
    near(two.total(X), 2 * total)
    near(five.total(X), 5 * total)
    near(two.twice(X), 4 * total)
    assert two.total is two.total
    near(two.top(X), X.max(1))
    near(two.softmax(X), lib.softmax(X))
    near(first(X)[:, 0], X.max(1))
    assert first(X, k=3).shape == (7, 3)
    near(called(X), 3 * total)
    assert "def listed" in str(first.explain())


def test_copies_of_an_instance_are_their_own():
    two = Scaled(2.0)
    two.total(X)
    for other in (copy.copy(two), copy.deepcopy(two), pickle.loads(pickle.dumps(two))):
        near(other.total(X), 2 * total)
        other.by = 7.0
        other = copy.copy(other)
        near(other.total(X), 7 * total)
    near(two.total(X), 2 * total)
    near(pickle.loads(pickle.dumps(two.total))(X), 2 * total)


def test_pipelines_are_pickled_by_name_as_functions_are():
    for pipeline in (greatest, lib.softmax, Scaled.total, Scaled.top):
        assert pickle.loads(pickle.dumps(pipeline)) is pipeline
        assert copy.deepcopy(pipeline) is pipeline
    for pipeline in (first, called, fg.grad(lib.softmax), fg.stabilize(lib.naive_softmax)):
        arrays = [X] * len(pipeline.signature.arrays)
        near(pickle.loads(pickle.dumps(pipeline))(*arrays), pipeline(*arrays))
    local = fg.pipeline(lambda x: fg.sum(x))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)
    near(copy.deepcopy(local)(X), total)


def test_what_is_compiled_is_compiled_again_where_it_is_unpickled():
    made = greatest.compile(X, k=3, chunk=1)
    again = pickle.loads(pickle.dumps(made))
    assert again.choices == made.choices
    np.testing.assert_array_equal(again(X).indices, made(X).indices)
    assert copy.deepcopy(made)(X).values.shape == (7, 3)


@pytest.mark.long
def test_a_pool_maps_pipelines():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (found,) = pool.map(lib.logsumexp, [X])
    near(found, lib.logsumexp(X))
    assert sys.modules[lib.logsumexp.__module__].logsumexp is lib.logsumexp


def test_a_profiler_goes_on_after_a_trace():
    profile = cProfile.Profile()
    with profile:
        fg.pipeline(lambda x: fg.sum(x)).traced(frozenset("x"), {})
        sys.intern("after")
    assert any("intern" in str(entry.code) for entry in profile.getstats())
