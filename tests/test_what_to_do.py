"""Errors about constants, names and shapes say what to give instead; and what they say works."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest

import fusegen as fg
from fusegen.lang import advice

X = np.arange(12, dtype="f4").reshape(3, 4)


class Rate(Enum):
    LOW = 2.5


class Named(Enum):
    LOW = 2.5

    def __str__(self) -> str:
        return "low"


class Count(IntEnum):
    TWO = 2


@dataclass
class Loose:
    a: float = 2.0


@dataclass(frozen=True)
class Firm:
    a: float = 2.0
    b: Any = field(default=())


class Pair(NamedTuple):
    a: float = 2.0


@fg.pipeline
def times(x, *, k):
    return fg.sum(x * k)


@fg.pipeline
def first(x, *, k):
    return fg.sum(x * k[0])


@fg.pipeline
def attribute(x, *, k):
    return fg.sum(x * k.a)


def told(call: Any, kind: type = fg.ArgumentError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.where.file == __file__
    assert caught.value.fix
    return str(caught.value)


@pytest.mark.parametrize("member", [Rate.LOW, Named.LOW])
def test_a_member_that_is_no_number(member):
    said = told(lambda: times(X, k=member), fg.TraceError)
    assert f"{type(member).__name__}.LOW is not something" in said
    assert f"{type(member).__name__}.LOW.value" in said
    np.testing.assert_allclose(times(X, k=member.value), 2.5 * X.sum(1))
    np.testing.assert_allclose(times(X, k=Count.TWO), 2 * X.sum(1))


@pytest.mark.parametrize(("value", "fix"), [
    ([2.0], "Give a tuple: tuple(k)."),
    ({"a": 2.0}, "NamedTuple or a frozen dataclass"),
    ({2.0}, "Give frozenset(k)."),
    (Loose(), "Decorate Loose with @dataclass(frozen=True)."),
    ((1, [2.0]), "Give a tuple: tuple(k[1])."),
    (Firm(b=[2.0]), "Give a tuple: tuple(k.b)."),
    (Firm(b=(1, Loose())), "Decorate Loose"),
    (X, "Arrays are positional parameters"),
])
def test_a_constant_that_can_change(value, fix):
    assert fix in told(lambda: attribute(X, k=value))


def test_what_is_advised_works():
    want = 2 * X.sum(1)
    for call in (lambda: first(X, k=(2.0,)), lambda: attribute(X, k=Firm()),
                 lambda: attribute(X, k=Pair())):
        np.testing.assert_allclose(call(), want)


@pytest.mark.parametrize("value", [Rate.LOW, {"a": 2.0}, Loose(), "low"])
def test_a_constant_among_the_arrays(value):
    @fg.pipeline
    def placed(x, k):
        return fg.sum(x * k)

    assert "keyword-only parameter: def …(x, *, k)" in told(lambda: placed(X, value))


def test_the_librarys_texts_are_among_the_suggestions():
    texts = set(fg.library.EVERY)
    assert set(advice._LIBRARY.split()) == texts - advice.WORDS
    assert told(lambda: fg.sofmax, fg.UnknownName).endswith("Did you mean fg.library.softmax?")
    assert told(lambda: fg.softmax, fg.UnknownName).endswith("Write fg.library.softmax.")
    assert told(lambda: fg.maxx, fg.UnknownName).endswith("Did you mean fg.max?")
    assert told(lambda: fg.library.sofmax, fg.UnknownName).endswith("fg.library.softmax?")
    assert told(lambda: fg.library.exp, fg.UnknownName).endswith("Write fg.exp(x).")
    assert not hasattr(fg.library, "nothing_like_it")

    @fg.pipeline
    def asked(x):
        return x.sofmax()

    assert told(lambda: asked(X), fg.UnknownName).endswith("Did you mean fg.library.softmax?")


@fg.pipeline
def sides(x, b: fg.PerRow, g: fg.PerColumn):
    return x * g + b


ROW, COLUMN = np.ones(3, "f4"), np.ones(4, "f4")


@pytest.mark.parametrize(("call", "fix"), [
    (lambda: sides(X, COLUMN, COLUMN), "Give b the shape (3,), or annotate it fg.PerColumn"),
    (lambda: sides(X, ROW, ROW), "Give g the shape (4,), or annotate it fg.PerRow"),
    (lambda: sides(X, X, COLUMN), "Give b the shape (3,)."),
    (lambda: sides(X, ROW, X[:2]), "Give g the shape (4,)."),
])
def test_side_inputs_of_other_shapes(call, fix):
    assert fix in told(call, fg.ShapeError)


@pytest.mark.parametrize(("out", "kind"), [
    (np.empty((3, 5), "f4"), fg.ShapeError), (np.empty(3, "f4"), fg.ShapeError),
    (np.empty((3, 4), "f8"), fg.DTypeError),
])
def test_out_of_another_shape_or_type(out, kind):
    said = told(lambda: fg.library.softmax(X, out=out), kind)
    assert "Give an array of shape (3, 4) and type float32, or leave out= away" in said
    locked = np.empty((3, 4), "f4")
    locked.setflags(write=False)
    assert "leave out= away" in told(lambda: fg.library.softmax(X, out=locked))
