"""What people type: the right class, their own line, and what to do; or it simply works."""

from __future__ import annotations

import asyncio
import math
import traceback
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from support.cases import arguments

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend

pytestmark = pytest.mark.usefixtures("served_by")

PACKAGE = str(Path(fg.__file__).parent) + "/"
X = np.random.default_rng(0).standard_normal((4, 6)).astype("f4")
SQUARE = X[:, :4]
LABELS = np.array([0, 5, 2, 1])
lib = fg.library
softmax, topk, lse = lib.softmax, lib.topk, lib.logsumexp
KEPT = []
fg.pipeline(lambda x: (KEPT.append(x), x)[1]).traced(frozenset("x"), {})


@fg.pipeline
def sides(
    x,
    c: fg.PerColumn | None = None,
    r: fg.PerRow | None = None,
):
    return fg.sum(x if c is None else x * c) * (1 if r is None else r)


async def waits(x):
    return await asyncio.sleep(0, x)


def yields(x):
    yield x


@dataclass
class Thing:
    x: object

    @fg.pipeline
    def total(self, x):
        return fg.sum(x) * self.x

    @classmethod
    @fg.pipeline
    def made(cls, x):
        return fg.sum(x)


# Each on one line: the error must name that line.
TEXTS = [
    # methods and attributes of arrays
    (lambda x: x.sum(), fg.UnknownName, "Write fg.sum(x)"),
    (lambda x: x.max(axis=-1), fg.UnknownName, "Write fg.max(x)"),
    (lambda x: x.mean(), fg.UnknownName, "fg.mean"),
    (lambda x: x.exp(), fg.UnknownName, "fg.exp"),
    (lambda x: x.topk(3), fg.UnknownName, "fg.topk"),
    (lambda x: x.std(), fg.UnknownName, "fg.sqrt(fg.var(x))"),
    (lambda x: x.clamp(0, 1), fg.UnknownName, "fg.minimum(fg.maximum"),
    (lambda x: x / x.shape[-1], fg.UnknownName, "fg.length(x)"),
    (lambda x: x * x.size, fg.UnknownName, "fg.length(x)"),
    (lambda x: x.astype("f8"), fg.UnknownName, "fg.cast"),
    (lambda x: x.to("cuda"), fg.UnknownName, "fg.cast"),
    (lambda x: x * x.dtype, fg.UnknownName, "One text serves"),
    (lambda x: x.T, fg.UnknownName, "axis=0"),
    (lambda x: x.reshape(-1), fg.UnknownName, "outside"),
    (lambda x: x.item(), fg.UnknownName, "on the device"),
    (lambda x: x.exponential(), fg.UnknownName, "no .exponential"),
    (lambda x: x.cumsum(), fg.UnknownName, "fg.monoid"),
    (lambda x: x.view(-1), fg.UnknownName, "outside"),
    (lambda x: x * x.ndim, fg.UnknownName, "one row"),
    (lambda x: x.cpu(), fg.UnknownName, "where the arrays are"),
    (lambda x: x.half(), fg.UnknownName, "fg.cast"),
    # operators that are not there
    (lambda x: x // 2, fg.TraceError, "fg.floor(a / b)"),
    (lambda x: 7 // x, fg.TraceError, "fg.floor(a / b)"),
    (lambda x: x % 2, fg.TraceError, "a - b * fg.floor"),
    (lambda x: divmod(x, 2), fg.TraceError, "fg.floor"),
    (lambda x: x @ x, fg.TraceError, "fg.sum(a * b)"),
    (lambda x: np.ones(6) @ x, fg.TraceError, "fg.sum(a * b)"),
    (lambda x: x ^ 1, fg.DTypeError, "Compare first"),
    (lambda x: 1 ^ x, fg.DTypeError, "Compare first"),
    (lambda x: (x > 0) ^ x, fg.DTypeError, "Compare first"),
    (lambda x: round(x, 2), fg.TraceError, "fg.round(x * 100) / 100"),
    (lambda x: np.round(x, 2), fg.TraceError, "round"),
    (lambda x: fg.round(x, 2), fg.TraceError, "fg.round(x)"),
    (lambda x: x << 1, fg.TraceError, "power of two"),
    (lambda x: len(x), fg.TraceError, "fg.length(x)"),
    (lambda x: [v for v in x], fg.TraceError, "Reduce it"),  # noqa: C416
    (lambda x: max(x), fg.TraceError, "Reduce it"),
    (lambda x: max(x, 0), fg.TraceError, "fg.maximum(a, b)"),
    (lambda x: x if x > 0 else -x, fg.TraceError, "fg.where"),
    (lambda x: 0 < x < 1, fg.TraceError, "& | ~"),
    (lambda x: (x > 0) and (x < 1), fg.TraceError, "& | ~"),
    (lambda x: not (x > 0), fg.TraceError, "& | ~"),
    (lambda x: 3.0 in x, fg.TraceError, "iterated"),
    (lambda x: x[0], fg.TraceError, "fg.take"),
    (lambda x: x[x > 0], fg.TraceError, "fg.take"),
    (lambda x: x.__setitem__(0, 1.0), fg.TraceError, "fg.where(fg.index(x)"),
    (lambda x: float(x), fg.TraceError, "fusegen's operations"),
    (lambda x: int(x), fg.TraceError, "not a Python number"),
    (lambda x: math.exp(x), fg.TraceError, "fg.exp"),
    (lambda x: range(fg.length(x)), fg.TraceError, "not a Python number"),
    (lambda x: f"{x:.3f}", fg.TraceError, "Print the results"),
    # other libraries' functions
    (lambda x: np.sum(x), fg.TraceError, "Write fg.sum(x)"),
    (lambda x: np.where(x > 0, x, 0), fg.TraceError, "Write fg.where"),
    (lambda x: np.clip(x, 0, 1), fg.TraceError, "fg.minimum"),
    (lambda x: np.log10(x), fg.TraceError, "fg.log(x) / math.log(10)"),
    (lambda x: np.arctan(x), fg.TraceError, "NumPy's arctan"),
    (lambda x: np.add.reduce(x), fg.TraceError, "NumPy's"),
    (lambda x: np.exp(x, out=X), fg.TraceError, "Write fg.exp"),
    (lambda x: np.linalg.norm(x), fg.TraceError, "norm2"),
    (lambda x: np.median(x), fg.TraceError, "no merge"),
    (lambda x: np.vectorize(float)(x), fg.TraceError, "not a Python number"),
    (lambda x: x * np.ones(6), fg.TraceError, "fg.PerColumn"),
    (lambda x: x * [1, 2], fg.TraceError, "list is not something"),
    (lambda x: x + "1", fg.TraceError, "float("),
    (lambda x: x + None, fg.TraceError, "optional input"),
    (lambda x: x * 1j, fg.TraceError, "real numbers"),
    (lambda x: x * Decimal("0.1"), fg.TraceError, "float("),
    (lambda x: x + softmax, fg.TraceError, "Call it first"),
    (lambda x: x * fg.topk(x, 2), fg.TraceError, "values, indices = fg.topk"),
    # the language, misused
    (lambda x: fg.sum(x, axis=1), fg.TraceError, "axis=0, keepdims"),
    (lambda x: fg.max(x, dim=-1), fg.TraceError, "axis=0, keepdims"),
    (lambda x: fg.mean(x, keepdims=True), fg.TraceError, "A text works on one row"),
    (lambda x: fg.exp(), fg.TraceError, "fg.exp(x)"),
    (lambda x: fg.where(x > 0, x), fg.TraceError, "fg.where(condition, a, b)"),
    (lambda x: fg.maximum(x), fg.TraceError, "fg.maximum(a, b)"),
    (lambda x: fg.topk(x), fg.TraceError, "missing 1 required"),
    (lambda x: fg.topk(x, 3) + 1, fg.TraceError, "values, indices = fg.topk"),
    (lambda x: -fg.topk(x, 3), fg.TraceError, "values, indices = fg.topk"),
    (lambda x: fg.topk(x, 3) > 0, fg.TraceError, "values, indices = fg.topk"),
    (lambda x: fg.exp(fg.topk(x, 3)), fg.TraceError, "values, indices = fg.topk"),
    (lambda x: fg.topk(x, 0), fg.TraceError, "≥ 1"),
    (lambda x: fg.topk(x, 2.0), fg.TraceError, "whole number"),
    (lambda x: fg.topk(x, True), fg.TraceError, "whole number"),
    (lambda x: fg.topk(x, fg.length(x)), fg.TraceError, "constant of the text"),
    (lambda x: fg.topk(x, np.array([1, 2])), fg.TraceError, "whole number"),
    (lambda x: fg.topk(x, 2, "largest"), fg.TraceError, "True or False"),
    (lambda x: fg.topk(fg.max(x), 2), fg.TraceError, "one value per column"),
    (lambda x: fg.topk(x > 0, 2)[0], fg.DTypeError, "fg.where(condition, 1, 0)"),
    (lambda x: fg.max(x > 0), fg.DTypeError, "fg.any"),
    (lambda x: fg.sum(fg.max(x)), fg.TraceError, "nothing to reduce"),
    (lambda x: fg.topk(x, 2)[0] + x, fg.TraceError, "fg.take(x, indices)"),
    (lambda x: fg.take(x, x), fg.TraceError, "fg.PerRow"),
    (lambda x: fg.take(x, fg.max(x)), fg.DTypeError, "whole numbers"),
    (lambda x: x & (x > 0), fg.DTypeError, "Compare first"),
    (lambda x: fg.where(x, x, 0), fg.DTypeError, "fg.where(x > 0"),
    (lambda x: fg.sum(fg.cast(x, "float16")), fg.TraceError, "Cast the result"),
    (lambda x: fg.cast(x, "complex64"), fg.DTypeError, "not supported"),
    (lambda x: fg.cast(x, "int7"), fg.DTypeError, "Did you mean 'int"),
    (lambda x: fg.topk(x, 2, index_dtype="i"), fg.DTypeError, "Choose one of them"),
    (lambda x: fg.cast(x, None), fg.DTypeError, "not supported"),
    (lambda x: fg.argmax(x, index_dtype="float32"), fg.TraceError, "integer type"),
    (lambda x: fg.sections(x, 0), fg.TraceError, "≥ 1"),
    (lambda x: fg.ragged(x, x), fg.TraceError, "fg.PerRow"),
    (lambda x: fg.reduce(max, x), fg.TraceError, "fg.monoid"),
    (lambda x: x + KEPT[0], fg.TraceError, "another pipeline"),
    (lambda x: softmax(x, axis=0), fg.TraceError, "the row that is being traced"),
    (lambda x: softmax(x, keepdims=True), fg.TraceError, "the row that is being traced"),
    (lambda x: lib.cross_entropy(x), fg.ArgumentError, "misses labels"),
    # names that are not there
    (lambda x: fg.softmax(x), fg.UnknownName, "fg.library.softmax"),
    (lambda x: fg.std(x), fg.UnknownName, "fg.sqrt(fg.var(x))"),
    (lambda x: fg.clip(x, 0, 1), fg.UnknownName, "fg.minimum(fg.maximum"),
    (lambda x: fg.relu(x), fg.UnknownName, "fg.maximum(x, 0)"),
    (lambda x: fg.maximun(x, 0), fg.UnknownName, "fg.maximum"),
    (lambda x: fg.median(x), fg.UnknownName, "no merge"),
    (lambda x: fg.norm(x), fg.UnknownName, "norm2"),
    (lambda x: fg.amax(x), fg.UnknownName, "fg.max(x)"),
    (lambda x: fg.arange(x), fg.UnknownName, "fg.index(x)"),
    (lambda x: fg.layer_norm(x), fg.UnknownName, "fg.library.layer_norm"),
]

CALLS = [
    (lambda: softmax(X, axis=1.0), fg.ArgumentError, "whole numbers"),
    (lambda: softmax(X, axis="1"), fg.ArgumentError, "axis is '1'"),
    (lambda: softmax(X, axis=True), fg.ArgumentError, "axis is True"),
    (lambda: softmax(X, axis=(0, True)), fg.ArgumentError, "whole numbers"),
    (lambda: softmax(X, axis=2), fg.ShapeError, "-2 … 1"),
    (lambda: softmax(X, axis=(0, 0)), fg.ShapeError, "twice"),
    (lambda: softmax(X, axis=(-1, 1)), fg.ShapeError, "twice"),
    (lambda: softmax(X, axis=()), fg.ShapeError, "no axis"),
    (lambda: softmax(X, axis=np.array([[0]])), fg.ArgumentError, "whole numbers"),
    (lambda: softmax(X, axis=np.array([0.5])), fg.ArgumentError, "whole numbers"),
    (lambda: softmax.reference(X, keepdims=2), fg.ArgumentError, "True or False"),
    (lambda: softmax(X, form=None), fg.ArgumentError, "Forms are"),
    (lambda: softmax(X, form=np.array(["safe"])), fg.ArgumentError, "Forms are"),
    (lambda: softmax.compile(X, form=None), fg.ArgumentError, "Forms are"),
    (lambda: softmax.explain(form=3), fg.ArgumentError, "Forms are"),
    (lambda: softmax(X, device=None), fg.ArgumentError, "Devices:"),
    (lambda: softmax(X, dim=1), fg.ArgumentError, "Say axis="),
    (lambda: lse(X, keepdim=True), fg.ArgumentError, "Say keepdims="),
    (lambda: lse(X, keepdims=1), fg.ArgumentError, "True or False"),
    (lambda: softmax(X, deterministic=1), fg.ArgumentError, "True or False"),
    (lambda: softmax(X, form="fast"), fg.ArgumentError, "form"),
    (lambda: softmax(X, device="tpu"), fg.ArgumentError, "cuda"),
    (lambda: softmax.compile(X, axis=0), fg.ArgumentError, "calls, reference and what compile ret"),
    (lambda: softmax.compile(X, keepdims=True), fg.ArgumentError, "what compile returns"),
    (lambda: softmax.plan(out=X), fg.ArgumentError, "of calls and what compile returns"),
    (lambda: softmax.reference(X, form="safe"), fg.ArgumentError, "argument of calls, compile"),
    (lambda: softmax(X, tune=True), fg.ArgumentError, "argument of compile"),
    (lambda: topk(X, kk=3), fg.ArgumentError, "Did you mean 'k'"),
    (lambda: topk(X, 3), fg.ArgumentError, "by keyword"),
    (lambda: topk(X, k=7), fg.ShapeError, "k ≤ 6"),
    (lambda: topk(X, k=[1]), fg.ArgumentError, "constant k"),
    (lambda: topk(X, k="3"), fg.TraceError, "whole number"),
    (lambda: topk(X, k=-1), fg.TraceError, "whole number"),
    (lambda: softmax(), fg.ArgumentError, "misses x"),
    (lambda: softmax(X, X), fg.ArgumentError, "takes 1 array"),
    (lambda: softmax(X, x=X), fg.ArgumentError, "twice"),
    (lambda: softmax(None), fg.ArgumentError, "misses x"),
    (lambda: softmax("x.npy"), fg.ArgumentError, "x is str"),
    (lambda: softmax({"x": X}), fg.ArgumentError, "x is dict"),
    (lambda: softmax(object()), fg.ArgumentError, "__array__"),
    (lambda: softmax([[1.0], [1.0, 2.0]]), fg.ArgumentError, "fg.ragged(x, lengths)"),
    (lambda: softmax([[[1.0, 2.0], [1.0]]] * 2), fg.ArgumentError, "fg.ragged(x, lengths)"),
    (lambda: softmax([1.0, [2.0]]), fg.ArgumentError, "fg.ragged(x, lengths)"),
    (lambda: defaulted([1, 2])(X), fg.ArgumentError, "constant w is list"),
    (lambda: defaulted({"a": 1}).compile(X), fg.ArgumentError, "constant w is dict"),
    (lambda: defaulted({1}).explain(), fg.ArgumentError, "constant w is set"),
    (lambda: defaulted(X).reference(X), fg.ArgumentError, "constant w is ndarray"),
    (lambda: defaulted(([1],))(X), fg.ArgumentError, "constant w is tuple"),
    (lambda: defaulted(1)(X, w=[1]), fg.ArgumentError, "constant w is list"),
    (lambda: softmax(3.0), fg.ShapeError, "no axes"),
    (lambda: softmax(np.array(3.0)), fg.ShapeError, "reshape(1)"),
    (lambda: softmax(X[:, :0]), fg.ShapeError, "zero columns"),
    (lambda: softmax(X.astype(complex)), fg.DTypeError, "complex128"),
    (lambda: softmax(X.astype("u8")), fg.DTypeError, "x.astype('int64')"),
    (lambda: softmax(X.astype("M8[s]")), fg.DTypeError, "x.astype('int64')"),
    (lambda: lib.cross_entropy(X, LABELS.astype(">u8")), fg.DTypeError, "labels.astype('int64')"),
    (lambda: softmax(X.astype("c8")), fg.DTypeError, "x.real"),
    (lambda: softmax.source(dtype="int7"), fg.DTypeError, "Did you mean 'int"),
    (lambda: softmax(X.astype(object)), fg.DTypeError, "object"),
    (lambda: softmax(X.astype("f8").astype("U8")), fg.DTypeError, "not supported"),
    (lambda: softmax(np.ma.masked_less(X, 0)), fg.ArgumentError, "mask"),
    (lambda: lib.cross_entropy(X, LABELS[:3]), fg.ShapeError, "per row"),
    (lambda: lib.cross_entropy(X, LABELS * 1.0), fg.DTypeError, "whole numbers"),
    (lambda: lib.rms_norm(X, X[0, :4]), fg.ShapeError, "per column"),
    (lambda: lib.weighted_mean(X, X[:, 0]), fg.ShapeError, "fg.PerRow"),
    (lambda: sides(X, X[0, :4]), fg.ShapeError, "for each"),
    (lambda: sides(X, r=X[:3, 0]), fg.ShapeError, "for each"),
    (lambda: softmax(X, out=X), fg.ArgumentError, "overlaps the input"),
    (lambda: softmax(X, out=np.empty((6, 4), "f4")), fg.ShapeError, "out has shape"),
    (lambda: softmax(X, out=np.empty((4, 6))), fg.DTypeError, "out has type"),
    (lambda: softmax(X, out=[[0.0] * 6] * 4), fg.PipelineError, "out"),
    (lambda: softmax(X, out=np.broadcast_to(np.empty(6, "f4"), (4, 6))), fg.ArgumentError, "out"),
    (lambda: softmax(X, out=repeated((4, 6), (0, 4))), fg.ArgumentError, "overlaps itself"),
    (lambda: softmax(X, out=repeated((4, 6), (4, 4))), fg.ArgumentError, "overlaps itself"),
    (lambda: topk(X, k=2, out=np.empty((4, 2), "f4")), fg.ArgumentError, "a tuple of 2"),
    (lambda: softmax.compile(X)(X.astype("f8")), fg.ArgumentError, "compiled for"),
    (lambda: softmax.compile(X)(X, form="safe"), fg.ArgumentError, "settled"),
    (lambda: softmax.compile(X)(X, device="cpu"), fg.ArgumentError, "call softmax itself"),
    (lambda: topk.compile(X, k=2)(X, k=3), fg.ArgumentError, "Leave k out"),
    (lambda: topk.compile(X, k=2)(X, kk=3), fg.ArgumentError, "Did you mean 'k'"),
    (lambda: lse.compile(X)(X, dim=0), fg.ArgumentError, "Say axis="),
    (lambda: softmax.compile(X, chunk=0), fg.ArgumentError, "chunk"),
    (lambda: softmax.compile(X, chunk=2**31), fg.ArgumentError, "32768 or less"),
    (lambda: softmax.compile(X, chunk=2**63, target="numpy"), fg.ArgumentError, "32768 or less"),
    (lambda: softmax.compile(X, chunk=3, target="numpy"), fg.ArgumentError, "impossible"),
    (lambda: softmax.compile(X, chunk=2**31, target="sm_90"), fg.ArgumentError, "power of two"),
    (lambda: softmax.compile(X, target="sm90"), fg.ArgumentError, "sm_90"),
    (lambda: softmax.compile(X, target=5), fg.ArgumentError, "Name one as a string"),
    (lambda: softmax.source(target=["cpu"]), fg.ArgumentError, "Name one as a string"),
    (lambda: softmax.source(X), fg.ArgumentError, "Name one as a string"),
    (lambda: softmax.explain(target=None), fg.ArgumentError, "Name one as a string"),
    (lambda: softmax.source(n_cols=np.array([3])), fg.ArgumentError, "whole number"),
    (lambda: softmax.source(n_cols=True), fg.ArgumentError, "whole number"),
    (lambda: softmax.derivation(3), fg.ArgumentError, "Write derivation("),
    (lambda: softmax.explain(X), fg.ArgumentError, "Write explain("),
    (lambda: softmax.derivation(dtyp="float16"), fg.ArgumentError, "no parameter 'dtyp'"),
    (lambda: softmax.source(dtype=None), fg.DTypeError, "float32"),
    (lambda: lib.rms_norm.source(inputs="weight"), fg.ArgumentError, "inputs=('weight',)"),
    (lambda: softmax.plan(inputs=3), fg.ArgumentError, "tuple of strings"),
    (lambda: fg.grad(softmax, wrt=3), fg.ArgumentError, "tuple of strings"),
    (lambda: fg.grad(softmax, wrt=["x", ["x"]]), fg.ArgumentError, "tuple of strings"),
    (lambda: fg.check(softmax, seed="a"), fg.ArgumentError, "whole number"),
    (lambda: fg.check(softmax, seed=-1), fg.ArgumentError, "whole number"),
    (lambda: softmax.source(dtype="float23"), fg.DTypeError, "float32"),
    (lambda: softmax.plan(inputs=("w",)), fg.ArgumentError, "optional input"),
    (lambda: fg.grad(softmax, wrt="y"), fg.ArgumentError, "no array 'y'"),
    (lambda: fg.grad(lambda x: x), fg.ArgumentError, "@fg.pipeline"),
    (lambda: fg.grad(lib.cross_entropy, wrt="labels"), fg.ArgumentError, "no gradient"),
    (lambda: fg.check(max), fg.ArgumentError, "@fg.pipeline"),
    (lambda: fg.stabilize(len), fg.ArgumentError, "@fg.pipeline"),
    (lambda: fg.pipeline(np.exp), fg.ArgumentError, "above def"),
    (lambda: fg.pipeline(3), fg.ArgumentError, "got int"),
    (lambda: fg.pipeline(classmethod(waits)), fg.ArgumentError, "@classmethod alone"),
    (lambda: fg.pipeline(np.sum), fg.ArgumentError, "Write fg.sum(x)."),
    (lambda: fg.pipeline(np.median), fg.ArgumentError, "no merge"),
    (lambda: Thing.total(X), fg.ArgumentError, "of an instance"),
    (lambda: Thing.total(Thing(2), X), fg.ArgumentError, "of an instance"),
    (lambda: Thing.made(X), fg.ArgumentError, "@classmethod alone"),
    (lambda: softmax(X, out=[0, 0]), fg.ArgumentError, "no array that can be written"),
    (lambda: lse(X[0], out=0.0), fg.ArgumentError, "numpy.empty((), 'float32')"),
    (lambda: softmax.source(target="sm_99"), fg.ArgumentError, "no sm_99"),
    (lambda: softmax.source(n_cols=10**30), fg.ArgumentError, "64 bits"),
    (lambda: softmax.source(n_rows=2**63), fg.ArgumentError, "64 bits"),
    (lambda: fg.exp(X), fg.TraceError, "outside a pipeline"),
    (lambda: fg.topk(X, 3), fg.TraceError, "outside a pipeline"),
    (lambda: fg.sofmax, fg.UnknownName, "no sofmax"),
    (lambda: fg.pipeline(lambda x: None)(X), fg.TraceError, "return"),
    (lambda: fg.pipeline(lambda x: "x")(X), fg.TraceError, "returns str"),
    (lambda: fg.pipeline(lambda x: {x: x})(X), fg.TraceError, "is a key"),
    (lambda: fg.pipeline(lambda x: Thing(x))(X), fg.TraceError, "returns Thing"),
    (lambda: fg.pipeline(lambda *x: x)(X), fg.TraceError, "names each"),
    (lambda: fg.pipeline(lambda x, k=3: x)(X), fg.TraceError, "*, k=3"),
    (lambda: fg.pipeline(lambda: 1)(X), fg.TraceError, "at least one array"),
    (lambda: fg.pipeline(lambda x, *, axis=1: x)(X), fg.TraceError, "called axis"),
    (lambda: fg.pipeline(lambda x, *, keepdims=1: x)(X), fg.TraceError, "keepdims"),
]


def defaulted(default):
    def text(x, *, w=default):
        return fg.sum(x)

    return fg.pipeline(text)


def repeated(shape, strides):
    return np.lib.stride_tricks.as_strided(np.empty(64, "f4"), shape, strides)


def id_of(case):
    return f"line{case[0].__code__.co_firstlineno}"


def mistake(kind, words, line, call):
    """The error of a call, which must be of this very class, at this line, with no more than one
    frame of ours between the user's."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert type(error) is kind or kind is fg.PipelineError
    assert words in f"{error.what}\n{error.why}\n{error.fix}"  # the line itself holds them anyhow
    assert (error.where.file, error.where.line) == (__file__, line)
    assert str(error).startswith(f"{__file__}:{line}: ")
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert sum(file.startswith(PACKAGE) for file in files) <= 1, files


@pytest.mark.long
@pytest.mark.parametrize("case", TEXTS, ids=id_of)
def test_mistakes_in_texts(case):
    fn, kind, words = case
    mistake(kind, words, fn.__code__.co_firstlineno, lambda: fg.pipeline(fn)(X))


@pytest.mark.parametrize("case", CALLS, ids=id_of)
def test_mistakes_in_calls(case, monkeypatch):
    monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    fn, kind, words = case
    mistake(kind, words, fn.__code__.co_firstlineno, fn)


def test_there_are_enough_of_them():
    assert len(TEXTS) + len(CALLS) >= 120


@pytest.mark.parametrize(("fn", "word"), [(waits, "coroutine"), (yields, "generator")])
def test_what_does_not_return_is_refused_at_its_def(fn, word):
    with pytest.raises(fg.TraceError, match=word) as caught:
        fg.pipeline(fn)
    assert caught.value.where.line == fn.__code__.co_firstlineno


PARAMETERS = [("k=3", "*, k=3"), ("*k", "names each"), ("axis", "called axis"),
              ("k: 'fg.PerRw'", "fg.PerRow"), ("**k", "names each")]


@pytest.mark.parametrize(("parameter", "words"), PARAMETERS)
@pytest.mark.parametrize("above", ["", "@fg.pipeline\n", "@fg.pipeline\n@staticmethod\n"])
def test_a_wrong_parameter_is_shown_at_its_own_line(parameter, words, above, tmp_path):
    file = tmp_path / "users.py"
    file.write_text(f"{above}def text(\n    x,\n    {parameter},\n):\n    return x\n")
    module = compile(f"{file.read_text()}fg.pipeline(text)\n", str(file), "exec")
    with pytest.raises(fg.TraceError) as caught:
        exec(module, {"fg": fg})
    where = caught.value.where
    assert (where.file, where.line) == (str(file), above.count("\n") + 3)
    assert where.text == f"{parameter},"
    assert words in f"{caught.value.what} {caught.value.why} {caught.value.fix}"


def test_hasattr_still_asks():
    asked = []

    @fg.pipeline
    def text(x):
        asked.extend([hasattr(x, "shape"), hasattr(x, "__array__")])
        return x

    text.traced(frozenset("x"), {})
    assert asked == [False, False]
    assert not hasattr(fg, "softmax")


# ---- types that the library's texts have no operation for ----


def test_advice_about_the_librarys_texts_is_about_the_call():
    """Whoever calls them cannot change a line of theirs: which array, and what to give it as."""
    wrong, asked = [], 0
    for name, pipeline in lib.PIPELINES.items():
        for types in (("?",), ("f4", "?"), ("f4", "f4"), ("i8",)):
            arrays = [np.asarray(a).astype(t) for a, t in zip(
                arguments(name, X), (*types, *["i8"] * 2), strict=False)]
            try:
                pipeline.compile(*arrays, target="numpy")
            except fg.DTypeError as error:
                asked += 1
                said = str(error).partition("(noticed")[0]
                given = {str(a.dtype) for a in arrays}
                if "fg." in error.fix or not any(f"is {g}: pass it as" in said for g in given):
                    wrong.append(f"{name} of {types}: {said}")
    assert asked > 8
    assert not wrong, "\n".join(wrong)


def test_advice_names_the_arrays_that_are_of_the_wrong_type():
    with pytest.raises(fg.DTypeError) as caught:
        lib.cross_entropy(np.arange(20).reshape(4, 5), LABELS)
    assert caught.value.fix == "x is int64: pass it as floats, such as float32."
    with pytest.raises(fg.DTypeError) as caught:
        lib.cross_entropy(X, LABELS.astype("f4"))
    assert caught.value.fix == "labels is float32: pass it as whole numbers, such as int64."
    with pytest.raises(fg.DTypeError) as caught:
        fg.pipeline(lambda x: fg.max(x))(X > 0)
    assert "fg.where" in caught.value.fix  # their own text, theirs to change
