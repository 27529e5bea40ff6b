"""The laws of monoids of one's own: proved, refuted by the smallest states, or neither."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import monoid_cases as written
from support import own_cases as own

import fusegen as fg
from fusegen.algebra.own import laws
from fusegen.algebra.own.exact import evaluate, exact, same
from fusegen.algebra.own.laws import Laws
from fusegen.algebra.own.reachable import mode_of
from fusegen.algebra.own.refute import Search
from fusegen.algebra.own.simplex import Simplex
from fusegen.algebra.own.work import Work
from fusegen.ir.expr import Call, call
from fusegen.ir.expr import evaluate as in_numpy
from fusegen.ir.shared import Recent


@cache
def findings(monoid):
    asked = Laws(monoid.operator)
    return {law: asked.finding(law) for law in ("associative", "identity", "commutative")}


@cache
def parts(monoid):
    return Laws(monoid.operator).parts


@pytest.mark.parametrize("name", own.PROVED)
def test_proved(name):
    found = findings(own.PROVED[name])
    assert found["associative"].proved, found["associative"].tried
    assert found["identity"].proved, found["identity"].tried
    assert found["commutative"].proved is (name in own.COMMUTATIVE)
    assert (found["commutative"].counterexample is None) is (name in own.COMMUTATIVE)
    assert sum(f.seconds for f in found.values()) < 10  # a loose bound: machines differ


def test_laws_are_found_once_for_all_pipelines_that_fold_by_a_monoid(monkeypatch, tmp_path):
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(laws, "_KNOWN", Recent(8))
    asked = []
    real = Laws._found

    def found(its, law):
        asked.append(law)
        return real(its, law)

    monkeypatch.setattr(Laws, "_found", found)
    for assume in ((), ("commutative",)):  # another monoid
        monoid = fg.monoid(name="once", identity=0.0, lift=lambda x: x, merge=lambda a, b: a + b,
                           assume=assume)

        def entries(text):
            return fg.pipeline(text).derivation().entries

        first = entries(lambda x: fg.reduce(monoid, x))  # noqa: B023
        second = entries(lambda x: fg.reduce(monoid, 2 * x))  # noqa: B023
        assert sorted(asked) == ["associative", "commutative", "identity"]
        assert {o.status for o in first[0].obligations} == {"proved"}
        assert first[0].obligations == second[0].obligations
        asked.clear()


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
    found = findings(monoid)[law].counterexample
    if found is None:
        pytest.skip("this law holds")
    recompute(monoid.operator, law, found)


def recompute(operator, law, found):
    """The states are those of their elements, and merge in NumPy as they are said to."""

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
                                  {n: np.asarray(v) for n, v in q.items()}, in_numpy)

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
    return all(np.allclose(float(p[n]), float(q[n]), rtol=1e-10, atol=1e-12, equal_nan=True)
               for n in p)


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
                       for v in values)
            join = lambda p, q: monoid.operator.merge(p, q, evaluate)  # noqa: E731
            left, right = join(join(a, b), c), join(a, join(b, c))
            assert all(same(left[n], right[n]) for n in left)


def test_the_text_can_be_checked_by_hand():
    with pytest.raises(fg.LawViolation) as caught:
        fg.check(own.mean_of_means)
    text = str(caught.value)
    for part in ("a = 0, the state of [0]", "c = 1, the state of [1]", "b ⊕ c = 1/2",
                 "(a ⊕ b) ⊕ c = 1/2", "a ⊕ (b ⊕ c) = 1/4", "own_cases.py"):
        assert part in text


@pytest.mark.long
def test_neither_proved_nor_refuted_needs_an_assumption():
    @fg.pipeline
    def residue(x):
        return fg.reduce(own.unproved, x)

    with pytest.raises(fg.UnprovedLaw) as caught:
        residue(np.ones((2, 3), np.int32))
    error = caught.value
    assert error.where.file == __file__
    assert "fg.reduce(own.unproved, x)" in error.where.text
    assert "Tried:" in str(error)
    assert "small examples agree" in str(error)
    assert "assume=('associative',)" in error.fix
    derivation = fg.check(own.assumed).derivation
    assert derivation.proved  # and is merged
    (entry,) = derivation
    known = {o.name: (o.status, o.engine) for o in entry.obligations}
    assert known["associative"][0] == known["identity"][0] == "assumed"
    assert known["commutative"] == ("proved", "sympy")


def test_a_refuted_law_cannot_be_assumed():
    monoid = fg.monoid(0.0, lambda x: x, lambda a, b: a - b, name="difference",
                       assume=("associative", "identity"))
    with pytest.raises(fg.LawViolation, match="associativity fails"):
        fg.check(monoid)


@pytest.mark.long
def test_what_is_not_known_to_commute_keeps_its_order():
    derivation = fg.check(own.recurrence).derivation
    (entry,) = derivation.entries
    assert entry.ordered
    assert "b ⊕ a" in entry.note
    told = fg.monoid(0.0, lambda x: x, lambda a, b: a + b, commutative=False)
    assert next(iter(fg.check(told).derivation)).ordered


@pytest.mark.long
def test_one_proof_for_two_reductions():
    @fg.pipeline
    def both(x):
        return fg.reduce(own.welford, x)["mean"], fg.reduce(own.welford, x * x)["mean"]

    first, second = both.derivation()
    assert first.obligations == second.obligations
    assert both.plan().sweeps == 1


@pytest.mark.long
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
       st.data())
@settings(max_examples=60, deadline=None)
def test_invariants_hold_of_every_state(values, data):
    """What a proof assumes of states is true of those that rows lead to."""
    monoid = data.draw(st.sampled_from([own.welford, own.first_number, own.depth]))
    (part,) = parts(monoid)
    fields = monoid.operator.fields
    state = None
    for v in values:
        here = {f.name: evaluate(f.lift, {"x": v}) for f in fields}
        state = here if state is None else monoid.operator.merge(state, here, evaluate)
    for name, sign in part.signs.signs.items():
        assert {">": state[name] > 0, "≥": state[name] >= 0, "≤": state[name] <= 0}[sign]
    for fact in part.facts.facts:
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
])
def test_exact_arithmetic(op, args, value):
    from fusegen.ir.expr import Lit, call

    literals = [Lit(a) if not isinstance(a, Fraction) else call("div", Lit(a.numerator),
                                                               Lit(a.denominator)) for a in args]
    found = evaluate(call(op, *literals), {})
    assert same(found, value if isinstance(value, Fraction) else exact(value))


# ---- monoids that people write ----


@pytest.mark.parametrize("name", written.RIGHT)
def test_what_people_write_is_proved(name):
    laws = Laws(written.RIGHT[name].operator)
    for law in ("associative", "identity"):
        assert laws.finding(law).proved, laws.finding(law)


@pytest.mark.parametrize("name", written.WRONG)
def test_what_people_get_wrong_is_refuted(name):
    operator = written.WRONG[name].operator
    laws = Laws(operator)
    findings = ((law, laws.finding(law).counterexample) for law in ("associative", "identity"))
    law, example = next((law, e) for law, e in findings if e is not None)
    recompute(operator, law, example)
    assert sum(map(len, example.pieces.values())) <= (6 if "stops at 6" in name else 5)


def test_there_are_enough_of_both():
    assert len(written.RIGHT) >= 38
    assert len(written.WRONG) >= 45


@pytest.mark.long
def test_a_broken_monoid_is_never_proved():
    """One operation of a right one exchanged: what is proved has no counterexample."""
    rng = random.Random(5)
    broken = [m for name in ("maximum drawdown", "second least", "saturating addition", "range",
                             "maximum and how often", "modulo 5 by a comparison", "clamping maps",
                             "max-plus line", "queue: work left", "balanced brackets")
              for m in mutants(written.RIGHT[name].operator)]
    assert len(broken) > 30
    refuted = 0
    for operator in rng.sample(broken, 24):
        laws = Laws(operator)
        for law in ("associative", "identity"):
            search = Search(operator, 4_000)
            found = search.counterexample(law)
            refuted += found is not None
            if found is not None:
                assert not all(part.decided(law).proved for part in laws.parts)
    assert refuted > 15


_OTHER = {"maximum": "minimum", "minimum": "maximum", "add": "sub", "sub": "add", "ge": "gt",
          "gt": "ge", "floor": "ceil"}


def mutants(operator):
    for i, f in enumerate(operator.fields):
        for merge in _exchanged(f.merge):
            fields = (*operator.fields[:i], replace(f, merge=merge), *operator.fields[i + 1 :])
            yield replace(operator, fields=fields)


def _exchanged(expr):
    if isinstance(expr, Call):
        if expr.op in _OTHER:
            yield call(_OTHER[expr.op], *expr.args)
        for i, arg in enumerate(expr.args):
            for m in _exchanged(arg):
                yield call(expr.op, *expr.args[:i], m, *expr.args[i + 1 :])


def test_facts_hold_of_every_state():
    """What linear arithmetic assumes of states is true of those that random rows lead to."""
    rng = random.Random(3)
    for name in ("longest run", "maximum subarray, empty ones too", "second largest",
                 "modulo 7", "balanced brackets", "number of runs"):
        monoid = written.RIGHT[name]
        for part in Laws(monoid.operator).parts:
            part.decided("identity")
            for states in part.decision.known.values():
                for _ in range(12):
                    _allowed(monoid.operator, states, rng)


def _allowed(operator, states, rng):
    whole = all(v.kind == "int" for v in operator.elements)
    state = None
    for _ in range(rng.randint(1, 9)):
        x = Fraction(rng.randint(-20, 20), 1 if whole else rng.choice([1, 2, 7]))
        here = {f.name: evaluate(f.lift, {v.name: x for v in operator.elements})
                for f in operator.fields}
        state = here if state is None else operator.merge(state, here, evaluate)
        held = {n: state[n] for n in (f.name for f in states.operator.fields)}
        mode = next(m for m in states.modes if mode_of(held, [n for n, v in m
                                                              if isinstance(v, Fraction)]) == m)
        assert all(fact.allows(held) for fact in states.modes[mode])


def test_the_simplex_is_right():
    """Against elimination, one variable after another (Fourier and Motzkin)."""
    rng = random.Random(1)
    answers = []
    for _ in range(150):
        simplex = Simplex(Work())
        system = []
        with contextlib.ExitStack() as held:
            feasible = True
            for _ in range(rng.randint(2, 7)):
                form = tuple((v, c) for v in "xyz" if (c := rng.choice([0, 1, -1, 2])))
                if not form or not feasible:
                    continue
                sign, bound, strict = rng.choice([1, -1]), rng.randint(-3, 3), rng.random() < 0.4
                system.append(({v: sign * c for v, c in form}, sign * bound, strict))
                feasible = held.enter_context(
                    simplex.assuming(form, sign, (bound, sign if strict else 0)))
            answers.append(feasible)
        assert feasible is eliminated(system, "xyz")
        assert not simplex.lower
        assert not simplex.upper
    assert 20 < sum(answers) < 130


def eliminated(system, variables):
    """Is there a point where every Σ c·v ≥ bound (> where it is strict)?"""
    for v in variables:
        above = [(f, b, s) for f, b, s in system if f.get(v, 0) > 0]
        below = [(f, b, s) for f, b, s in system if f.get(v, 0) < 0]
        system = [(f, b, s) for f, b, s in system if not f.get(v, 0)]
        for (f, b, s), (g, c, t) in itertools.product(above, below):
            p, q = Fraction(1, f[v]), Fraction(1, -g[v])
            both = {n: p * f.get(n, 0) + q * g.get(n, 0) for n in {*f, *g}}
            system.append((both, p * b + q * c, s or t))
    return all(b < 0 or (b == 0 and not s) for _, b, s in system)
