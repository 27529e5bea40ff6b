"""The user's errors: what, where in the user's file, why, what to do."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from support.cases import rows

import fusegen as fg
from fusegen.lang.signature import RESERVED

softmax, topk = fg.library.softmax, fg.library.topk


def error_of(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def branch(x):
    return x if fg.max(x) > 0 else -x


def iterate(x):
    return [v for v in x]  # noqa: C416


def index(x):
    return x[0]


def numpy_function(x):
    return np.cumsum(x)


def python_math(x):
    return math.exp(x)


def foreign(x):
    return x + "one"


def array_constant(x):
    return x * np.ones(3)


def nothing(x):
    x + 1


def reduce_twice(x):
    return fg.sum(fg.max(x))


def topk_zero(x):
    return fg.topk(x, 0)


def mixes_list_and_element(x):
    return fg.topk(x, 2)[0] + x


def take_by_element(x):
    return fg.take(x, x)


def narrow_in_the_middle(x):
    return fg.sum(fg.cast(x, "float16"))


TEXTS = [branch, iterate, index, numpy_function, python_math, foreign, array_constant, nothing,
         reduce_twice, topk_zero, mixes_list_and_element, take_by_element,
         narrow_in_the_middle]


@pytest.mark.parametrize("fn", TEXTS, ids=lambda f: f.__name__)
def test_trace_errors_point_at_the_line(fn):
    error = error_of(fg.TraceError, lambda: fg.pipeline(fn)(rows()))
    assert error.what
    assert error.where.file == __file__
    lines, first = inspect.getsourcelines(fn)
    assert first <= error.where.line < first + len(lines)
    assert f"{__file__}:{error.where.line}" in str(error)
    assert error.why or error.fix


def test_operations_outside_a_pipeline():
    error = error_of(fg.TraceError, lambda: fg.exp(rows()))
    assert "outside a pipeline" in error.what


def test_type_errors_say_what_to_write():
    @fg.pipeline
    def needs_whole(x, i: fg.PerRow):
        return fg.take(x, i)

    error = error_of(fg.DTypeError, lambda: needs_whole(np.ones((2, 3)), np.ones(2)))
    assert error.where.file == __file__
    assert "fg.cast" in error.fix


@pytest.mark.parametrize(("dtype", "advice"), [
    ("complex64", "x.real"), ("U3", "'float64'"), ("uint64", "below 2**63"), ("f4, f4", "x['f0']"),
    ("object", "numpy.asarray(x, 'float64')"), ("datetime64[s]", "x.astype('int64')"),
    (np.longdouble, "x.astype('float64')"),
])
def test_unsupported_types(dtype, advice):
    """What is advised loses nothing unsaid."""
    error = error_of(fg.DTypeError, lambda: softmax(np.zeros((2, 3), dtype)))
    assert "x:" in error.what
    assert advice in error.fix


def test_signatures():
    def star(*x):
        return x[0]

    def default(x, k=5):
        return fg.topk(x, k)

    def reserved(x, *, axis=0):
        return x

    assert "names each" in str(error_of(fg.TraceError, lambda: fg.pipeline(star)))
    assert "*, k=5" in str(error_of(fg.TraceError, lambda: fg.pipeline(default)))
    assert "axis" in str(error_of(fg.TraceError, lambda: fg.pipeline(reserved)))


def test_arguments():
    x = rows()
    error = error_of(fg.ArgumentError, lambda: topk(x, kk=3))
    assert "Did you mean 'k'" in error.fix
    assert "needs" in str(error_of(fg.ArgumentError, lambda: needs_k(x)))
    assert "takes 1 array" in str(error_of(fg.ArgumentError, lambda: softmax(x, x)))
    assert "misses values" in str(error_of(fg.ArgumentError, lambda: fg.library.weighted_mean(x)))
    assert "form" in str(error_of(fg.ArgumentError, lambda: softmax(x, form="fast")))
    assert "device" in str(error_of(fg.ArgumentError, lambda: softmax(x, device="cuda")))
    assert "target" in str(error_of(fg.ArgumentError, lambda: softmax.source("sm90")))
    assert "chunk" in str(error_of(fg.ArgumentError, lambda: softmax.plan(chunk=0)))
    assert "constant k" in str(error_of(fg.ArgumentError, lambda: topk(x, k=[1])))


@fg.pipeline
def needs_k(x, *, k):
    return fg.topk(x, k)


@pytest.mark.parametrize("x", [[[1.0], [1.0, 2.0]], 3.0, None, "row", np.float32(1)], ids=repr)
def test_what_is_not_an_array_of_rows(x):
    assert error_of(fg.PipelineError, lambda: softmax(x))


def test_masked_arrays_are_refused():
    x = np.ma.masked_less(rows(), 0)
    assert "mask" in str(error_of(fg.ArgumentError, lambda: softmax(x)))


def test_shapes():
    x = rows((4, 6))
    assert "axes" in str(error_of(fg.ShapeError, lambda: softmax(np.zeros(()))))
    assert "zero columns" in str(error_of(fg.ShapeError, lambda: softmax(x[:, :0])))
    assert "axis 2" in str(error_of(fg.ShapeError, lambda: softmax(x, axis=2)))
    error = error_of(fg.ShapeError, lambda: topk(x, k=7))
    assert "k ≤ 6" in error.fix
    ce, rms, wm = fg.library.cross_entropy, fg.library.rms_norm, fg.library.weighted_mean
    assert "per row" in str(error_of(fg.ShapeError, lambda: ce(x, np.zeros(5, int))))
    assert "per column" in str(error_of(fg.ShapeError, lambda: rms(x, np.ones(4, "f4"))))
    assert "broadcast" in str(error_of(fg.ShapeError, lambda: wm(x, rows((4, 5)))))


def test_out():
    x = rows((4, 6))
    assert "shape" in str(error_of(fg.ShapeError, lambda: softmax(x, out=np.empty((6, 4), "f4"))))
    assert "type" in str(error_of(fg.DTypeError, lambda: softmax(x, out=np.empty((4, 6)))))
    assert "overlaps the input x" in str(error_of(fg.ArgumentError, lambda: softmax(x, out=x)))
    both = np.empty((4, 12), "f4")
    both[:, :6] = x
    assert "overlaps" in str(
        error_of(fg.ArgumentError, lambda: softmax(both[:, :6], out=both[:, 1:7]))
    )
    locked = np.empty((4, 6), "f4")
    locked.setflags(write=False)
    assert "written" in str(error_of(fg.ArgumentError, lambda: softmax(x, out=locked)))
    assert "tuple of 2" in str(error_of(fg.ArgumentError, lambda: topk(x, k=2, out=locked)))
    shared = np.empty((4,), "f4")
    twice = lambda: fg.library.var_mean(x, out=(shared, shared))  # noqa: E731
    assert "overlap" in str(error_of(fg.ArgumentError, twice))


def test_where_an_argument_belongs():
    """What takes it is what is named, and a pipeline's own parameters are called otherwise."""
    p, shown = fg.Pipeline, ("source", "plan", "derivation", "explain")
    kinds = {"calls": p.__call__, "reference": p.reference, "compile": p.compile,
             "what compile returns": fg.Compiled.__call__,
             **dict.fromkeys(shown, p.work)}
    ours = {"self", "arrays", "constants", "named"}
    taken = {n: {o for o in inspect.signature(f).parameters if not o.startswith("_")} - ours
             for n, f in kinds.items()}
    assert set(RESERVED) == set().union(*taken.values())
    for option, takers in RESERVED.items():
        assert {n for n, options in taken.items() if option in options} == set(takers), option
        for method in {"compile", *shown} - set(takers):
            asked = lambda: getattr(softmax, method)(**{option: 1})  # noqa: B023, E731
            assert f"argument of {takers[0]}" in str(error_of(fg.ArgumentError, asked))


def test_roots():
    assert issubclass(fg.ShapeError, fg.PipelineError)
    assert issubclass(fg.PipelineError, fg.FusegenError)
    assert not issubclass(fg.InternalError, fg.PipelineError)
