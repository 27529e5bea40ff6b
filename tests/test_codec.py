"""Results as text and back: all of them, exactly; and nothing else is ever read."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

import fusegen as fg
from fusegen.backend.cuda.schedule.select import candidates, select_cuda
from fusegen.backend.emit.source import Source
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.tuning import Kept
from fusegen.ir import codec
from fusegen.ir.codec import Unreadable, Unwritable, decoded, encoded
from fusegen.ir.derivation import Derivation, Obligation
from fusegen.ir.expr import Call, Lit, Var, call
from fusegen.ir.kernel import Let, Program
from fusegen.library.texts import PIPELINES


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types, NaN equal to NaN and 0.0 not to -0.0."""
    if type(a) is not type(b):
        return False
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def refused(x, y):
    m = fg.max(y)
    return fg.sum(fg.where(x > fg.mean(x), fg.exp(x - m), 0.0)), fg.topk(x, 3)


@pytest.mark.parametrize("name", ["softmax_topk", "moe_gate", "layer_norm", "var_mean"])
def test_results_of_passes_come_back(name):
    work = PIPELINES[name].work()
    for one, kind in (("derive", Derivation), ("lower", Program), ("emit", Source)):
        found = work.result(one)
        assert same(decoded(encoded(found), kind), found)


def test_refusals_and_schedules_come_back():
    work = fg.pipeline(refused).work()
    assert work.derivation.refusals
    assert same(decoded(encoded(work.derivation), Derivation), work.derivation)
    target = CUDA_TARGETS["sm_90"]
    schedule = select_cuda(work.result("lower"), work.problem, target)
    assert same(decoded(encoded(schedule), type(schedule)), schedule)
    kept = Kept("GPU", ((repr(schedule), 1e-5, ""), (repr(schedule), None, "too large")))
    assert same(decoded(encoded(kept), Kept), kept)
    found = candidates(work.result("lower"), work.problem, target)
    assert [t.schedule for t in kept.among(found).timings] == [schedule, schedule]


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    value: float | int | bool | str | None
    colour: Colour = Colour.RED
    share: Fraction = Fraction(1, 3)


@dataclass(frozen=True, kw_only=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    pair: tuple[int, str] = (1, "one")
    way: Literal["left", "right", 1] = "left"
    beneath: Tree | None = None


VALUES = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7e308, 0.1, 1, True,
          False, 0, 10**300, -1, "", "a\n\0\u20ac\ud800", None]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_scalars_come_back_exactly(value):
    tree = Tree(leaves=(Leaf(value), Leaf(value), Leaf(1.0), Leaf(1), Leaf(True)))
    assert same(decoded(encoded(tree), Tree), tree)


def test_the_deep_and_the_shared():
    """Ten thousand levels, and 2^60 paths: neither recursion nor copies."""
    tree = None
    for k in range(10_000):
        tree = Tree(pair=(k, "x"), beneath=tree)
    found = decoded(encoded(tree), Tree)
    while found is not None:
        assert found.pair == tree.pair
        found, tree = found.beneath, tree.beneath
    expr = Var("x")
    for _ in range(60):
        expr = call("add", expr, expr)
    text = encoded(Let("y", expr))
    assert len(text) < 5000
    found = decoded(text, Let).expr
    while isinstance(found, Call):
        assert found.args[0] is found.args[1]
        found = found.args[0]


@pytest.mark.parametrize(
    "value",
    [{}, [1], {1}, 1j, b"bytes", object(), Leaf([1]), Tree(leaves=({},)), np.float32(1), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_text_is_not_written(value):
    with pytest.raises(Unwritable):
        encoded(value)


GOOD = Tree(leaves=(Leaf(1.5),), beneath=Tree(way="right"))
WRONG = {
    "no JSON": b"not json", "empty": b"", "no list": b"{}", "nothing": b"[]",
    "a pickle": b"\x80\x04N.",
    "unknown maker": b'["os", ["system", 0]]', "no place": b'[["tuple", 7]]',
    "a later place": b'[["tuple", 1], 2]', "another class": encoded(Leaf(1)),
    "a class that is not named": b'[1, ["Lit", 0, 0]]', "NaN": b"[NaN]", "a nest": b"[" * 100_000,
    "a place that is no number": b'["x", ["tuple", "x"]]', "a dict": b'[{"a": 1}]',
    "a fraction of text": b'["1", ["Fraction", 0, 0]]',
    "over nothing": b'[1, 0, ["Fraction", 0, 1]]',
    "a float of text": b'["1e5", ["float", 0]]', "no colour": b'["blue", ["Colour", 0]]',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_other_text_is_refused(text):
    with pytest.raises(Unreadable):
        decoded(text, Tree)


@pytest.mark.parametrize(
    "wrong",
    [Leaf(()), Leaf(1, Colour.RED, 0.5), Leaf(1, "red"), Tree(pair=(1,)), Tree(pair=("1", "one")),
     Tree(pair=(True, "one")), Tree(way="up"), Tree(way=True), Tree(leaves=(1,)),
     Tree(leaves=Leaf(1)), Tree(beneath=Leaf(1))],
    ids=repr,
)
def test_every_field_is_checked(wrong):
    kind = type(wrong)
    with pytest.raises(Unreadable):
        decoded(encoded(wrong), kind)


def test_only_operations_that_exist_are_called():
    for op, args in (("system", (Var("x"),)), ("add", (Lit(1.0),)), ("add", ())):
        with pytest.raises(Unreadable):
            decoded(encoded(Let("y", Call(op, args))), Let)


def test_damage_is_refused_or_harmless():
    """Whatever is changed in a text, a value of the right class comes back, or Unreadable."""
    random_ = random.Random(0)
    obligation = Obligation("cocycle", "T(q→r) T(p→q) = T(p→r)", "proved", 0.5)
    for value in (obligation, GOOD):
        text = encoded(value)
        for _ in range(2000):
            at = random_.randrange(len(text))
            other = bytes([random_.choice(b'0123456789[]",.-ntf{}x\xff')])
            changed = text[:at] + random_.choice((other, b"", other + text[at : at + 1])) \
                + text[at + 1 :]
            try:
                found = decoded(changed, type(value))
            except Unreadable:
                continue
            assert type(found) is type(value)
            assert same(decoded(encoded(found), type(value)), found)


def test_rows_are_never_more_than_values():
    items = json.loads(encoded(replace(GOOD, beneath=GOOD)))
    assert len(items) < 25
    assert not hasattr(codec, "pickle")
