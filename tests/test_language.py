"""Tracing: names, places, sharing, composition, structure."""

from __future__ import annotations

import numpy as np
import pytest
from cases import rows

import fusegen as fg
from fusegen import graph as g
from fusegen.digest import digest
from fusegen.library import softmax


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
], ids=lambda given: next(iter(given)))  # fmt: skip
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


@pytest.mark.parametrize(
    "annotation", [fg.PerRow, "fg.PerRow", "PerRow | None", fg.PerRow | None, "fusegen.PerRow"]
)
def test_annotations_in_every_spelling(annotation):
    def text(x, y=None):
        return fg.sum(x) if y is None else fg.sum(x) * y

    text.__annotations__["y"] = annotation
    graph = graph_of(text, "x", "y")
    assert graph.inputs[1].axis is g.Axis.PER_ROW
    assert len(graph_of(text, "x").inputs) == 1


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
           "sin", "cos", "erf", "sigmoid", "floor", "ceil", "round"]  # fmt: skip
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
