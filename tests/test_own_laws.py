"""The laws of monoids of one's own: proved, refuted by the smallest states, or neither."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import own_cases as own
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fusegen as fg
from fusegen.algebra.own.exact import evaluate, exact, same
from fusegen.algebra.own.laws import Laws
from fusegen.expr import evaluate as in_numpy


@cache
def findings(monoid):
    laws = Laws(monoid.operator)
    return {law: laws.finding(law) for law in ("associative", "identity", "commutative")}


@pytest.mark.parametrize("name", own.PROVED)
def test_proved(name):
    found = findings(own.PROVED[name])
    assert found["associative"].proved, found["associative"].tried
    assert found["identity"].proved, found["identity"].tried
    assert found["commutative"].proved is (name in own.COMMUTATIVE)
    assert (found["commutative"].counterexample is None) is (name in own.COMMUTATIVE)
    assert sum(f.seconds for f in found.values()) < 10  # a loose bound: machines differ


@pytest.mark.parametrize("name", own.REFUTED)
def test_refuted(name):
    law = "identity" if name == "unguarded_mean" else "associative"
    with pytest.raises(fg.LawViolation) as caught:
        fg.check(own.REFUTED[name])
    assert caught.value.counterexample.law == law
    assert caught.value.where.file == own.__file__


REFUTATIONS = [
    *((m, law) for m in own.REFUTED.values() for law in ("associative", "identity")),
    *((m, "commutative") for n, m in own.PROVED.items() if n not in own.COMMUTATIVE),
]


@pytest.mark.parametrize(("monoid", "law"), REFUTATIONS, ids=lambda v: getattr(v, "name", v))
def test_a_counterexample_is_true(monoid, law):
    """The states are those of their elements, and merge in NumPy as they are said to."""
    found = findings(monoid)[law].counterexample
    if found is None:
        pytest.skip("this law holds")
    operator = monoid.operator

    def state(piece):
        states = [operator.identity]
        for element in piece:
            env = dict(zip((v.name for v in operator.elements), map(float, element), strict=True))
            states.append({f.name: in_numpy(f.lift, env) for f in operator.fields})
        total = states[0] if len(states) == 1 else states[1]
        for after in states[2:]:
            total = merge(total, after)
        return total

    def merge(p, q):
        with np.errstate(all="ignore"):
            return operator.merge({n: np.asarray(v) for n, v in p.items()},
                                  {n: np.asarray(v) for n, v in q.items()}, in_numpy)  # fmt: skip

    s = {name: state(piece) for name, piece in found.pieces.items()}
    for name, shown in found.states.items():
        assert equal(s[name], shown)
    if law == "associative":
        left = merge(merge(s["a"], s["b"]), s["c"])
        right = merge(s["a"], merge(s["b"], s["c"]))
    elif law == "commutative":
        left, right = merge(s["a"], s["b"]), merge(s["b"], s["a"])
    else:
        both = [merge(s["e"], s["a"]), merge(s["a"], s["e"])]
        left, right = next(m for m in both if not equal(m, s["a"])), s["a"]
    assert not equal(left, right)
    first, second = found.sides.values()
    assert equal(left, first)
    assert equal(right, second)


def equal(p, q):
    return all(np.allclose(float(p[n]), float(q[n]), equal_nan=True) for n in p)


@pytest.mark.parametrize("name", own.REFUTED)
def test_no_counterexample_is_shorter(name):
    """None has fewer elements, in the very numbers that are searched."""
    law = "identity" if name == "unguarded_mean" else "associative"
    monoid = own.REFUTED[name]
    found = findings(monoid)[law].counterexample
    size = sum(map(len, found.pieces.values()))
    if law == "identity":
        assert size == 0  # two empty states
        return
    assert size == 3  # one element each: fewer make no three states
    numbers = [abs(float(e[0])) for piece in found.pieces.values() for e in piece]
    for values in itertools.product((0, 1, -1), repeat=3):
        if sum(map(abs, values)) < sum(numbers):
            a, b, c = ({f.name: evaluate(f.lift, {"x": exact(v)}) for f in monoid.operator.fields}
                       for v in values)  # fmt: skip
            join = lambda p, q: monoid.operator.merge(p, q, evaluate)  # noqa: E731
            left, right = join(join(a, b), c), join(a, join(b, c))
            assert all(same(left[n], right[n]) for n in left)


def test_the_text_can_be_checked_by_hand():
    with pytest.raises(fg.LawViolation) as caught:
        fg.check(own.mean_of_means)
    text = str(caught.value)
    for part in ("a = 0, the state of [0]", "c = 1, the state of [1]", "b ⊕ c = 1/2",
                 "(a ⊕ b) ⊕ c = 1/2", "a ⊕ (b ⊕ c) = 1/4", "own_cases.py"):  # fmt: skip
        assert part in text


def test_neither_proved_nor_refuted_needs_an_assumption():
    @fg.pipeline
    def longest(x):
        return fg.reduce(own.unproved_run, x)

    with pytest.raises(fg.UnprovedLaw) as caught:
        longest(np.ones((2, 3)))
    error = caught.value
    assert error.where.file == __file__
    assert "fg.reduce(own.unproved_run, x)" in error.where.text
    assert "Tried:" in str(error)
    assert "small examples agree" in str(error)
    assert "assume=('associative',)" in error.fix
    assert fg.check(own.longest_run).derivation.proved  # and is merged, in row order
    entry = next(iter(fg.check(own.longest_run).derivation))
    assert {o.status for o in entry.obligations} == {"assumed"}
    assert entry.ordered


def test_a_refuted_law_cannot_be_assumed():
    monoid = fg.monoid(0.0, lambda x: x, lambda a, b: a - b, name="difference",
                       assume=("associative", "identity"))  # fmt: skip
    with pytest.raises(fg.LawViolation, match="associativity fails"):
        fg.check(monoid)


def test_what_is_not_known_to_commute_keeps_its_order():
    derivation = fg.check(own.recurrence).derivation
    (entry,) = derivation.entries
    assert entry.ordered
    assert "b ⊕ a" in entry.note
    told = fg.monoid(0.0, lambda x: x, lambda a, b: a + b, commutative=False)
    assert next(iter(fg.check(told).derivation)).ordered


def test_one_proof_for_two_reductions():
    @fg.pipeline
    def both(x):
        return fg.reduce(own.welford, x)["mean"], fg.reduce(own.welford, x * x)["mean"]

    first, second = both.derivation()
    assert first.obligations == second.obligations
    assert both.plan().sweeps == 1


def test_the_shared_value_of_a_product():
    @fg.pipeline
    def both(x):
        whole = fg.product(own.welford, own.max_count, name="both")
        (moments, (greatest, ties)) = fg.reduce(whole, x)
        return moments["variance"], greatest, ties

    x = np.array([[1.0, 3, 3, 2], [0, 0, 0, 0]])
    variance, greatest, ties = both.reference(x)
    np.testing.assert_allclose(variance, x.var(1))
    np.testing.assert_array_equal(greatest, x.max(1))
    np.testing.assert_array_equal(ties, [2, 4])
    assert both.derivation().proved


@given(st.lists(st.fractions(-5, 5, max_denominator=7), min_size=3, max_size=12),
       st.data())  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_invariants_hold_of_every_state(values, data):
    """What a proof assumes of states is true of those that rows lead to."""
    monoid = data.draw(st.sampled_from([own.welford, own.first_number, own.depth, own.moments]))
    laws = Laws(monoid.operator)
    fields = monoid.operator.fields
    state = None
    for v in values:
        here = {f.name: evaluate(f.lift, {"x": v}) for f in fields}
        state = here if state is None else monoid.operator.merge(state, here, evaluate)
    for name, sign in laws.signs.signs.items():
        assert {">": state[name] > 0, "≥": state[name] >= 0, "≤": state[name] <= 0}[sign]
    for fact in laws.facts.facts:
        if hasattr(fact, "less"):
            assert state[fact.less] <= state[fact.more]
        elif state[fact.flag] is fact.truth:
            tied = state[fact.other] if fact.other else exact(fact.constant)
            assert same(state[fact.number], tied)


@pytest.mark.parametrize(("op", "args", "value"), [
    ("div", (1, 3), Fraction(1, 3)), ("div", (0, 0), math.nan), ("div", (-2, 0), -math.inf),
    ("sqrt", (Fraction(9, 4),), Fraction(3, 2)), ("sqrt", (-1,), math.nan), ("exp", (0,), 1),
    ("maximum", (math.nan, 1), math.nan), ("round", (Fraction(5, 2),), 2), ("log", (0,), -math.inf),
    ("to_int", (Fraction(-7, 2),), -3), ("xlogy", (0, 5), 0), ("pow", (2, -2), Fraction(1, 4)),
    ("eq", (math.nan, math.nan), False), ("le", (math.inf, math.inf), True),
])  # fmt: skip
def test_exact_arithmetic(op, args, value):
    from fusegen.expr import Lit, call

    literals = [Lit(a) if not isinstance(a, Fraction) else call("div", Lit(a.numerator),
                                                               Lit(a.denominator)) for a in args]
    found = evaluate(call(op, *literals), {})
    assert same(found, value if isinstance(value, Fraction) else exact(value))
