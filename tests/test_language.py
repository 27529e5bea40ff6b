"""Tracing: names, places, sharing, composition, structure."""

from __future__ import annotations

import collections.abc
import inspect
import re
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union  # noqa: F401

import numpy as np
import pytest
from numpy.typing import NDArray
from support.cases import rows

import fusegen as F2  # noqa: F401 (annotations name it)
import fusegen as fg
from fusegen import PerRow as PR
from fusegen.ir import graph as g
from fusegen.ir.digest import digest
from fusegen.lang.value import Value
from fusegen.library.texts import softmax

if TYPE_CHECKING:  # names that annotations of tests use, and that do not exist at run time
    import fusegen as checked  # noqa: F401
    from fusegen import PerRow as Checked  # noqa: F401
    from fusegen import PerRwo as Typo  # noqa: F401
    from fusegen import rows as typo  # noqa: F401


def graph_of(fn, *present, **constants):
    pipeline = fg.pipeline(fn)
    names = present or pipeline.signature.arrays
    return pipeline.traced(frozenset(names), pipeline.signature.bind_constants(constants)).graph


def test_names_are_the_users():
    def text(x):
        m = fg.max(x)
        total = fg.sum(fg.exp(x - m))
        return total

    graph = graph_of(text)
    assert {"x", "m", "total"} <= set(graph.names.values())
    assert graph["m"].loc.line == graph.loc.line + 1
    assert "fg.max(x)" in graph["m"].loc.text


def test_equal_operations_are_one_node():
    def text(x):
        return fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x)))

    assert len(graph_of(text).reductions) == 2
    assert sum(isinstance(n, g.Map) and n.op == "exp" for n in graph_of(text).nodes) == 1


def test_pipelines_call_pipelines():
    def text(x):
        return fg.max(softmax(x))

    x = rows()
    np.testing.assert_allclose(
        fg.pipeline(text)(x), fg.library.softmax.reference(x).max(axis=1), rtol=1e-6
    )


def test_inlined_pipelines_take_constants_and_optional_inputs():
    @fg.pipeline
    def outer(x, w: fg.PerColumn):
        values, _ = fg.library.topk(fg.library.rms_norm(x, w, eps=0.5), k=2)
        return fg.library.layer_norm(x, bias=w), values

    x, w = rows((3, 12)), np.ones(12, np.float32)
    found = outer(x, w)
    for got, want in zip(found, outer.reference(x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", [
    {"axis": 0}, {"keepdims": True}, {"out": rows()}, {"form": "safe"}, {"device": "cpu"},
    {"deterministic": True},
], ids=lambda given: next(iter(given)))
def test_inlined_pipelines_take_what_their_text_takes(given):
    def wrong(x):
        return softmax(x, **given)

    with pytest.raises(fg.TraceError, match=f"with {next(iter(given))} inside a pipeline"):
        fg.pipeline(wrong)(rows())


def test_conditions_combine_as_pythons():
    """Either way round, and with a constant."""

    def text(x):
        a, b = x > 0, fg.isfinite(x)
        return [fg.count(c) for c in (a ^ b, b ^ a, a ^ True, False ^ a, a & True, b | False, ~a)]

    x = rows((3, 40))
    x[0, :9], x[1, 1] = np.inf, np.nan
    a, b = x > 0, np.isfinite(x)
    wanted = (a ^ b, b ^ a, ~a, a, a, b, ~a)
    for got, want in zip(fg.pipeline(text)(x), wanted, strict=True):
        np.testing.assert_array_equal(got, want.sum(1))


def test_structures_nest():
    def text(x):
        return {"a": fg.max(x), "b": (fg.min(x), [fg.sum(x)])}

    assert graph_of(text).structure == {"a": 0, "b": (1, [2])}
    assert graph_of(text).output_names[0] == "a"


type_alias = typing.NewType("type_alias", fg.PerRow)
Bounded = typing.TypeVar("Bounded", bound=fg.PerRow)
NAMED = "PR | None"
ITSELF = "Optional[ITSELF]"


class Labels(fg.PerRow):
    """One's own name for it."""


def _late():
    from fusegen import PerRow as Inside

    Renamed = Inside  # noqa: F841 (annotations name both)


ROWS = [
    fg.PerRow, fg.PerRow | None, typing.Optional[fg.PerRow], typing.Union[None, fg.PerRow],  # noqa: UP007, UP045
    typing.Annotated[fg.PerRow, "a note"], typing.Annotated[np.ndarray, fg.PerRow], type_alias,
    typing.Annotated[fg.PerRow | None, 3], Bounded, Labels, Labels | None, np.ndarray | fg.PerRow,
    typing.Optional["PR"], typing.ForwardRef("F2.PerRow"),
    "fg.PerRow", "PerRow | None", "fusegen.PerRow", "PR", "PR | None", "None | PR", "F2.PerRow",
    "Optional[PR]", "typing.Optional[fg.PerRow]", "Union[PR, None]", "typing.Union[PR, np.ndarray]",
    "Annotated[PR, 'a note']", "Annotated[np.ndarray, PR]", "'PR'", "Optional['PR']", "Labels",
    "type_alias", "NAMED", "Inside", "Renamed | None", "Checked", "checked.PerRow | None",
    "fusegen.lang.value.PerRow", "nowhere.PerRow", "PerRow values, float32", "Bounded",
]
ELEMENTS = [
    inspect.Parameter.empty, None, typing.Any, Value, np.ndarray, NDArray, NDArray[np.float32],
    np.ndarray | None, typing.Optional[NDArray[np.int64]], list[float], 3, "a note", object,  # noqa: UP045
    typing.Literal["PerRow"], collections.abc.Sequence[float], typing.Annotated[Value, "PerRow"],
    "Value", "np.ndarray", "NDArray[np.float32]", "Tensor", "torch.Tensor | None", "Any", "ITSELF",
    "Float[Array, 'rows cols']", "jax.Array", "Optional[Tensor]", "list[float]", "lambda: 3",
    "Literal['PerRow']", "(rows, cols)", "scores of a person", "float32[rows, cols]", "3", "",
    "Annotated[Value, 'PerRow']",
    "HybridArray", "Row", "Column", "Percent", "typing.Missing",
]
REFUSED = [
    ("fg.PerRw", "Did you mean fg.PerRow?"), ("fg.PerRw | None", "fg.PerRow"),
    ("Optional[F2.PerCol]", "fg.PerColumn"), ("PerRw", "fg.PerRow"), ("per_row", "fg.PerRow"),
    ("per row", "fg.PerRow"), ("PerColumns", "fg.PerColumn"), ("nowhere.PerRows", "fg.PerRow"),
    ("fg.Tensor", "elements need no annotation"), ("fusegen.lang.value.Rows", "does not have"),
    ("'PerRw'", "fg.PerRow"), ("typo.Name", "does not have"), ("Typo", "Did you mean fg.PerRow?"),
    ("PR | fg.PerColumn", "one of them"), (fg.PerRow | fg.PerColumn, "one of them"),
    ("list[PR]", "one array"), (list[fg.PerRow], "one array"), ("tuple[PR, ...]", "one array"),
    ("PR or None", "not run"), ("PR()", "not run"), (typing.Optional["fg.PerRw"], "fg.PerRow"),
]


def _annotated(annotation):
    def text(x, y=None):
        return fg.sum(x) if y is None else fg.sum(x) * fg.sum(x + y)

    if annotation is not inspect.Parameter.empty:
        text.__annotations__["y"] = annotation
    return text


@pytest.mark.parametrize("annotation", ROWS, ids=str)
def test_annotations_in_every_spelling(annotation):
    graph = graph_of(_annotated(annotation), "x", "y")
    assert graph.inputs[1].axis is g.Axis.PER_ROW
    assert len(graph_of(_annotated(annotation), "x").inputs) == 1
    if isinstance(annotation, str):
        columns = re.sub(r"\b(PerRow|PR)\b", "PerColumn", annotation)
        if columns != annotation and "PerColumn" in columns:
            columns = columns.replace("F2.", "fg.").replace("checked.", "fg.")
            graph = graph_of(_annotated(columns), "x", "y")
            assert graph.inputs[1].axis is g.Axis.PER_COLUMN


@pytest.mark.parametrize("annotation", ELEMENTS, ids=str)
def test_what_says_nothing_of_rows_and_columns_annotates_elements(annotation):
    assert graph_of(_annotated(annotation), "x", "y").inputs[1].axis is g.Axis.ELEMENT


@pytest.mark.parametrize(("annotation", "words"), REFUSED, ids=str)
def test_annotations_that_nearly_say_it_are_refused(annotation, words):
    text = _annotated(annotation)
    with pytest.raises(fg.TraceError, match="annotation of y") as caught:
        fg.pipeline(text)
    assert words in f"{caught.value.what} {caught.value.why} {caught.value.fix}"
    assert caught.value.where.text == "def text(x, y=None):"


def test_annotations_are_looked_up_where_the_function_stands():
    """Also in a file with `from __future__ import annotations`, in functions, behind partials."""
    file = """
from __future__ import annotations
import functools, typing
import fusegen as lib
from fusegen import PerRow as PR
from typing import Optional as Maybe

def wrapped(fn):
    @functools.wraps(fn)
    def call(*args, **kwargs):
        return fn(*args, **kwargs)
    return call

def made(Kind):
    def inner(x, s: Kind):
        assert Kind is not None
        return lib.sum(x * s)
    return inner

class Holder:
    def method(self, x, s: Maybe[PR] = None): return lib.sum(x * s)

def partly(x, s: "PR | None" = None, *, by): return lib.sum(x * s) * by
texts = [wrapped(partly), functools.partial(partly, by=1), Holder().method,
         lambda x, s: lib.sum(x * s)]
texts[-1].__annotations__["s"] = "PR"
texts = [functools.partial(texts[0], by=1), made(PR), *texts[1:]]
"""
    scope = {"__name__": "a_users"}
    exec(compile(file, "<a user's>", "exec"), scope)
    x, s = np.arange(9.0).reshape(3, 3), np.array([1.0, 2, 3])
    for text in scope["texts"]:
        np.testing.assert_allclose(fg.pipeline(text)(x, s), [3, 24, 63])


def test_constants_are_compiled_in_and_told_apart_by_type():
    @fg.pipeline
    def scaled(x, *, by=1):
        return fg.sum(x) * by

    x = np.array([[1, 2, 3]])
    assert scaled(x, by=2).dtype == np.int64
    assert scaled(x, by=2.0).dtype == np.float32
    assert scaled(x.astype("f4"), by=2.0).tolist() == [12.0]


def test_digests_tell_graphs_apart_but_not_folders():
    def one(x):
        return fg.sum(x)

    def other(x):
        return fg.max(x)

    assert digest(graph_of(one)) != digest(graph_of(other))
    assert digest(graph_of(one)) == digest(graph_of(one))


def test_every_elementwise_operation_runs():
    one = ["exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "abs", "sign", "tanh",
           "sin", "cos", "erf", "sigmoid", "floor", "ceil", "round"]
    x = np.abs(rows((2, 21))) + np.float32(0.1)
    for name in one:

        def text(x, name=None):
            return getattr(fg, text.op)(x)

        text.op = name
        pipeline = fg.pipeline(text)
        np.testing.assert_allclose(pipeline(x), pipeline.reference(x), rtol=3e-6, atol=1e-6)


def test_operators_and_conditions():
    @fg.pipeline
    def text(x, y):
        inside = (x > 0) & ~(y >= 1) | fg.isnan(x)
        both = fg.where(inside, 2 - x, 3 / (abs(y) + 1)) ** 2
        edge = fg.maximum(x, y) - fg.minimum(x, 0.5) + fg.xlogy(abs(x), abs(y))
        return (
            both,
            edge,
            fg.any(inside),
            fg.all(inside),
            fg.prod(+x),
            fg.length(x),
            fg.index(x) * 1.5,
        )

    x, y = rows((3, 11)), rows((3, 11), 1)
    for got, want in zip(text(x, y), text.reference(x, y), strict=True):
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=1e-5, atol=1e-6)
