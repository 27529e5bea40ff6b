"""Operators broken by hand: every mutant is caught by the trials of `fg.check` alone.

A mutant is a derived entry, a lowered monoid or a merge with one thing wrong. Basis functions are
called by their text, with u (and v) for the elements relative to their pivots.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import sympy as sp
from support.cases import covariance, kl_divergence, skewness_sum

import fusegen as fg
from fusegen.algebra.derive import derive
from fusegen.algebra.laws import obligations_of
from fusegen.algebra.pivot import best_candidate, close
from fusegen.algebra.reading import read_setting
from fusegen.ir.derivation import Dependent
from fusegen.ir.expr import Expr, Lit, Var, call, substitute, text, variables
from fusegen.ir.monoid import Monoid
from fusegen.library.check import attempt, lowered
from fusegen.oracle import replay

# ---- the operators ----


@fg.pipeline
def normaliser(x):
    m = fg.max(x)
    return m, fg.sum(fg.exp(x - m))


@fg.pipeline
def soft_minimum(x):
    m = fg.min(x)
    return m, fg.sum(fg.exp(m - x))


@fg.pipeline
def magnitudes(x):
    a = fg.max(fg.abs(x))
    return a, fg.sum(fg.abs(x) / a)


@fg.pipeline
def squares(x):
    a = fg.max(fg.abs(x))
    return a, fg.sum((x / a) ** 2)


@fg.pipeline
def about_the_minimum(x):
    low = fg.min(x)
    return low, fg.mean((x - low) ** 2)


@fg.pipeline
def about_a_weighted_mean(x, w):
    weight = fg.exp(w)
    mu = fg.sum(weight * x) / fg.sum(weight)
    return mu, fg.sum(weight * (x - mu) ** 2)


@fg.pipeline
def leaders(x):
    return fg.argmax(x), fg.argmin(x)


OPERATORS: dict[str, fg.Pipeline] = {
    p.name: p
    for p in (normaliser, soft_minimum, magnitudes, squares, about_the_minimum, leaders, covariance,
              skewness_sum, kl_divergence, about_a_weighted_mean, fg.library.entropy,
              fg.library.weighted_mean, fg.library.var_mean, fg.library.topk)
}

# ---- what can be broken in a derived entry ----

Edit = Callable[[Dependent], Dependent]
Change = Callable[[Expr], Expr | None]


def _called(entry: Dependent, lift: Expr) -> str:
    letters: dict[str, Expr] = {s.name: Var("uv"[i]) for i, s in enumerate(entry.shifts)}
    return text(substitute(lift, letters))


def _at(entry: Dependent, name: str) -> int:
    return [_called(entry, b.lift) for b in entry.basis].index(name)


def term(of: str, by: str, change: Change) -> Edit:
    """The factor of Σ `by` in the moved Σ `of`; None drops the term."""

    def edit(entry: Dependent) -> Dependent:
        k, j = _at(entry, of), _at(entry, by)
        row = [(i, change(f) if i == j else f) for i, f in entry.basis[k].transport]
        assert j in dict(row), f"{of} has no term in {by}"
        kept = tuple((i, f) for i, f in row if f is not None)
        basis = list(entry.basis)
        basis[k] = replace(basis[k], transport=kept)
        return replace(entry, basis=tuple(basis))

    return edit


def row(of: str, change: Change) -> Edit:
    """Every factor in the moved Σ `of`."""

    def edit(entry: Dependent) -> Dependent:
        k = _at(entry, of)
        for i, _ in entry.basis[k].transport:
            entry = term(of, _called(entry, entry.basis[i].lift), change)(entry)
        return entry

    return edit


def stays(of: str) -> Edit:
    """Σ `of` is not moved at all."""

    def edit(entry: Dependent) -> Dependent:
        k = _at(entry, of)
        basis = list(entry.basis)
        basis[k] = replace(basis[k], transport=((k, Lit(1.0)),))
        return replace(entry, basis=tuple(basis))

    return edit


def extra(of: str, by: str, factor: float) -> Edit:
    """One more term in the moved Σ `of`."""

    def edit(entry: Dependent) -> Dependent:
        k, j = _at(entry, of), _at(entry, by)
        basis = list(entry.basis)
        basis[k] = replace(basis[k], transport=(*basis[k].transport, (j, Lit(factor))))
        return replace(entry, basis=tuple(basis))

    return edit


def lift(of: str, change: Change) -> Edit:
    def edit(entry: Dependent) -> Dependent:
        k = _at(entry, of)
        basis = list(entry.basis)
        changed = change(basis[k].lift)
        assert changed is not None
        basis[k] = replace(basis[k], lift=changed)
        return replace(entry, basis=tuple(basis))

    return edit


def read(of: str, change: Change) -> Edit:
    def edit(entry: Dependent) -> Dependent:
        k = _at(entry, of)
        changed = change(entry.readout[k]) or Lit(0.0)
        return replace(
            entry, readout=(*entry.readout[:k], changed, *entry.readout[k + 1 :])
        )

    return edit


def drop(_: Expr) -> None:
    return None


def negate(e: Expr) -> Expr:
    return call("neg", e)


def square(e: Expr) -> Expr:
    return call("mul", e, e)


def double(e: Expr) -> Expr:
    return call("mul", Lit(2.0), e)


def halve(e: Expr) -> Expr:
    return call("div", e, Lit(2.0))


def _moves(e: Expr) -> list[str]:
    return [n for n in variables(e) if n.endswith(("_shift", "_ratio"))]


def backwards(e: Expr) -> Expr:
    """q → p for p → q: δ with the wrong sign, ρ upside down."""
    return substitute(e, {n: call("neg", Var(n)) if n.endswith("_shift")
                          else call("div", Lit(1.0), Var(n)) for n in _moves(e)})


def absolute(e: Expr) -> Expr:
    return substitute(e, {n: call("abs", Var(n)) for n in _moves(e)})


def no_exponential(e: Expr) -> Expr:
    """exp(δ) to first order."""
    (move,) = _moves(e)
    return call("add", Lit(1.0), Var(move))


def of_the_other(e: Expr) -> Expr:
    """The move of another pivot."""
    return substitute(e, {"m_shift": Var("m_2_shift"), "mean_x_shift": Var("mean_y_shift")})


EDITS: dict[str, dict[str, Edit]] = {
    "normaliser": {
        "not rescaled": stays("exp(u)"),
        "rescaled backwards": row("exp(u)", backwards),
        "factor squared": row("exp(u)", square),
        "factor halved": row("exp(u)", halve),
        "factor to first order": row("exp(u)", no_exponential),
        "|δ|": row("exp(u)", absolute),
        "sign flipped": row("exp(u)", negate),
        "sum lost on every move": row("exp(u)", drop),
        "read twice": read("exp(u)", double),
        "exp twice": lift("exp(u)", square),
    },
    "soft_minimum": {
        "not rescaled": stays("exp(-u)"),
        "rescaled backwards": row("exp(-u)", backwards),
        "factor squared": row("exp(-u)", square),
    },
    "entropy": {
        "the cross term dropped": term("exp(u)·u", "exp(u)", drop),
        "the cross term doubled": term("exp(u)·u", "exp(u)", double),
        "the cross term's sign flipped": term("exp(u)·u", "exp(u)", negate),
        "the cross term backwards": term("exp(u)·u", "exp(u)", backwards),
        "Σ u·exp(u) not rescaled": term("exp(u)·u", "exp(u)·u", lambda e: Lit(1.0)),
        "Σ u·exp(u) rescaled twice": term("exp(u)·u", "exp(u)·u", square),
        "read without log": read("exp(u)", drop),
        "read with the wrong sign": read("exp(u)", negate),
    },
    "weighted_mean": {
        "not rescaled": stays("values·exp(u)"),
        "rescaled backwards": row("values·exp(u)", backwards),
        "factor squared": row("values·exp(u)", square),
        "values squared": lift("values·exp(u)", lambda e: call("mul", Var("values"), e)),
    },
    "var_mean": {
        "without δ²n": term("u·u", "1", drop),
        "with −δ²n": term("u·u", "1", negate),
        "with 2δ²n": term("u·u", "1", double),
        "with δ⁴n": term("u·u", "1", square),
        "Σ u² not moved": stays("u·u"),
        "Σ u with an n too much": extra("u", "1", 1.0),
        "an n too much": extra("u·u", "1", 1.0),
        "read halved": read("u·u", halve),
    },
    "skewness_sum": {
        "without δ³n": term("u·u·u", "1", drop),
        "δ³n backwards": term("u·u·u", "1", backwards),
        "3δΣu² as 6δΣu²": term("u·u·u", "u·u", double),
        "3δΣu² with −": term("u·u·u", "u·u", negate),
        "Σ u² without δ²n": term("u·u", "1", drop),
        "third moment not moved": stays("u·u·u"),
    },
    "covariance": {
        "without δεn": term("u·v", "1", drop),
        "with −δεn": term("u·v", "1", negate),
        "δ²n for δεn": term("u·v", "1", lambda e: square(Var("mean_x_shift"))),
        "δεn doubled": term("u·v", "1", double),
        "not moved": stays("u·v"),
    },
    "squares": {
        "ρ for ρ²": row("u·u", lambda e: Var("a_ratio")),
        "ρ⁴": row("u·u", square),
        "upside down": row("u·u", backwards),
        "not rescaled": stays("u·u"),
    },
    "magnitudes": {
        "ρ²": row("u", square),
        "upside down": row("u", backwards),
        "not rescaled": stays("u"),
    },
    "kl_divergence": {
        "Σ v·exp(u) with u's move": term("exp(u)·v", "exp(u)", lambda e: call(
            "mul", call("exp", Var("m_shift")), Var("m_shift"))),
        "Σ v·exp(u) without its own move": term("exp(u)·v", "exp(u)", drop),
        "Σ u·exp(u) without its own move": term("exp(u)·u", "exp(u)", drop),
        "rescaled by y's maximum": row("exp(u)·u", of_the_other),
        "read with +": read("exp(u)·v", negate),
    },
    "about_the_minimum": {
        "without δ²n": term("u·u", "1", drop),
        "δ backwards": row("u", backwards),
        "not moved": stays("u·u"),
    },
    "about_a_weighted_mean": {
        "without δ²Σw": term("weight·u·u", "weight", drop),
        "δ²Σw doubled": term("weight·u·u", "weight", double),
        "not moved": stays("weight·u·u"),
    },
}


def _derived(pipeline: fg.Pipeline) -> tuple[Any, Any]:
    inputs = tuple(pipeline.signature.optional)
    work = pipeline.work(form="online", dtype="float64", inputs=inputs)
    return work, derive(work.graph)


def _edited(pipeline: fg.Pipeline, edit: Edit) -> tuple[Any, Any]:
    """The derivation with the last merged sum broken that has such a basis function."""
    work, derivation = _derived(pipeline)
    entries = list(derivation.entries)
    for i, entry in reversed(list(enumerate(entries))):
        if isinstance(entry, Dependent):
            with suppress(ValueError):
                entries[i] = edit(entry)
                break
    assert entries != list(derivation.entries), "the edit changed nothing"
    return work, replace(derivation, entries=tuple(entries))


@pytest.mark.parametrize(
    ("operator", "name"), [(o, n) for o, edits in EDITS.items() for n in edits]
)
def test_broken_transports_and_readouts_are_caught(operator, name):
    work, derivation = _edited(OPERATORS[operator], EDITS[operator][name])
    with pytest.raises(fg.LawViolation):
        attempt(work, derivation, lowered(work, derivation), 0)


# ---- what can be broken in a lowered monoid ----


def least_for_greatest(m: Monoid) -> Monoid:
    other = {"max": "min", "min": "max"}
    return replace(m, folded=tuple(replace(f, fold=other.get(f.fold, f.fold)) for f in m.folded))


def counted_twice(m: Monoid) -> Monoid:
    found = tuple(replace(f, lift=Lit(2.0)) if f.name == "count" else f for f in m.folded)
    assert found != m.folded
    return replace(m, folded=found)


def count_of_the_greater(m: Monoid) -> Monoid:
    """A count that is not added."""
    return replace(m, folded=tuple(
        replace(f, fold="max") if f.name == "count" else f for f in m.folded))


def no_anchor(m: Monoid) -> Monoid:
    """Sums relative to 0 while they are moved as if relative to the pivot."""
    return replace(m, pivots=tuple(replace(p, value=Lit(1.0)) for p in m.pivots))


def twice_the_pivot(m: Monoid) -> Monoid:
    return replace(m, pivots=tuple(
        replace(p, value=call("mul", Lit(2.0), p.value)) for p in m.pivots))


def shorter_list(m: Monoid) -> Monoid:
    return replace(m, lists=tuple(replace(c, k=c.k - 1) for c in m.lists))


def of_the_negative(m: Monoid) -> Monoid:
    return replace(m, lists=tuple(replace(c, lift=call("neg", c.lift)) for c in m.lists),
                   best=tuple(replace(b, lift=call("neg", b.lift)) for b in m.best))


def other_end(m: Monoid) -> Monoid:
    return replace(m, best=tuple(replace(b, largest=not b.largest) for b in m.best))


@dataclass(frozen=True)
class Lowered:
    operator: str
    change: Callable[[Monoid], Monoid]


LOWERED = [
    Lowered("normaliser", least_for_greatest), Lowered("soft_minimum", least_for_greatest),
    Lowered("squares", least_for_greatest), Lowered("about_the_minimum", least_for_greatest),
    Lowered("var_mean", counted_twice), Lowered("covariance", counted_twice),
    Lowered("var_mean", count_of_the_greater), Lowered("skewness_sum", count_of_the_greater),
    Lowered("normaliser", no_anchor), Lowered("squares", no_anchor),
    Lowered("normaliser", twice_the_pivot), Lowered("squares", twice_the_pivot),
    Lowered("topk", shorter_list), Lowered("topk", of_the_negative),
    Lowered("leaders", of_the_negative), Lowered("leaders", other_end),
]


@pytest.mark.parametrize("mutant", LOWERED, ids=lambda m: f"{m.operator}-{m.change.__name__}")
def test_broken_monoids_are_caught(mutant):
    work, derivation = _derived(OPERATORS[mutant.operator])
    kernel = lowered(work, derivation)
    sweeps = tuple(replace(s, monoid=mutant.change(s.monoid)) for s in kernel.sweeps)
    with pytest.raises(fg.LawViolation):
        attempt(work, derivation, replace(kernel, sweeps=sweeps), 0)


# ---- what can be broken in a merge ----

Merge = Callable[[replay.Folder, replay.State, replay.State], replay.State]
RIGHT: Merge = replay.Folder.merge


def ignores_the_second(folder, a, b):
    parts = {**b.parts, **{v.name: 0.0 for v in folder.monoid.moving}}
    return RIGHT(folder, a, replace(b, parts=parts))


def only_adds(folder, a, b):
    new = RIGHT(folder, a, b)
    new.parts |= {v.name: a.parts[v.name] + b.parts[v.name] for v in folder.monoid.moving}
    return new


def keeps_the_first_pivot(folder, a, b):
    new = RIGHT(folder, a, b)
    return replay.State({**new.parts, **{f.name: a.parts[f.name] for f in folder.monoid.folded}},
                        new.best, new.lists)


def counts_the_first(folder, a, b):
    new = RIGHT(folder, a, b)
    return replay.State({**new.parts, "count": a.parts["count"]}, new.best, new.lists)


def adds_an_epsilon(folder, a, b):
    """Wrong by 1e-20: nothing in float64 would see it."""
    new = RIGHT(folder, a, b)
    tiny = {v.name: new.parts[v.name] * (1 + folder.call("div", 1, 10**20))
            for v in folder.monoid.moving}
    return replay.State({**new.parts, **tiny}, new.best, new.lists)


def prefers_the_second_on_ties(folder, a, b):
    new = RIGHT(folder, a, b)
    for name, pair in new.best.items():
        x, y = a.best[name], b.best[name]
        new.best[name] = y if x is not None and y is not None and x[0] == y[0] else pair
    for name in new.lists:
        best = {c.name: c.k for c in folder.monoid.lists}[name]
        new.lists[name] = sorted([*b.lists[name], *a.lists[name]],
                                 key=lambda p: replay.rank(p)[:2])[:best]
    return new


def keeps_all_of_the_first(folder, a, b):
    new = RIGHT(folder, a, b)
    for c in folder.monoid.lists:
        new.lists[c.name] = (a.lists[c.name] + b.lists[c.name])[: c.k]
    for name in new.best:
        new.best[name] = a.best[name] or b.best[name]
    return new


def loses_nan(folder, a, b):
    """IEEE order: NaN is nobody's better."""

    def key(pair):
        value, column = pair
        return (value != value, 0 if value != value else -value, column)

    new = RIGHT(folder, a, b)
    for c in folder.monoid.lists:
        new.lists[c.name] = sorted(a.lists[c.name] + b.lists[c.name], key=key)[: c.k]
    for best in folder.monoid.best:
        pairs = [p for p in (a.best[best.name], b.best[best.name]) if p is not None]
        if best.largest:
            new.best[best.name] = min(pairs, key=key, default=None)
    return new


def turns_the_list(folder, a, b):
    new = RIGHT(folder, a, b)
    return replay.State(new.parts, new.best, {n: v[::-1] for n, v in new.lists.items()})


MERGES = [
    ("normaliser", ignores_the_second, "identity"), ("entropy", ignores_the_second, None),
    ("var_mean", ignores_the_second, None), ("squares", ignores_the_second, None),
    ("normaliser", only_adds, "homomorphism"), ("entropy", only_adds, None),
    ("kl_divergence", only_adds, None), ("var_mean", only_adds, None),
    ("normaliser", keeps_the_first_pivot, "identity"), ("squares", keeps_the_first_pivot, None),
    ("var_mean", counts_the_first, "identity"), ("covariance", counts_the_first, None),
    ("normaliser", adds_an_epsilon, "identity"), ("var_mean", adds_an_epsilon, None),
    ("entropy", adds_an_epsilon, None), ("topk", prefers_the_second_on_ties, "commutativity"),
    ("leaders", prefers_the_second_on_ties, "commutativity"),
    ("topk", keeps_all_of_the_first, "commutativity"),
    ("leaders", keeps_all_of_the_first, "commutativity"),
    ("topk", loses_nan, None), ("leaders", loses_nan, None), ("topk", turns_the_list, None),
]


@pytest.mark.parametrize(
    ("operator", "merge", "law"), MERGES, ids=[f"{o}-{m.__name__}" for o, m, _ in MERGES]
)
def test_broken_merges_are_caught_and_the_law_is_named(operator, merge, law, monkeypatch):
    work, derivation = _derived(OPERATORS[operator])
    monkeypatch.setattr(replay.Folder, "merge", merge)
    with pytest.raises(fg.LawViolation) as caught:
        attempt(work, derivation, lowered(work, derivation), 0)
    if law is not None:
        assert f"{law} fails" in caught.value.what


WRONG_UNITS: dict[str, dict[str, Any]] = {
    "normaliser": {"m": 0.0}, "soft_minimum": {"m": 0.0}, "var_mean": {"count": 1.0},
    "squares": {"a": 1e-9},
}


@pytest.mark.parametrize("operator", WRONG_UNITS)
def test_a_wrong_identity_is_caught(operator, monkeypatch):
    identity = replay.Folder._identity

    def wrong(self):
        state = identity(self)
        return replay.State({**state.parts, **WRONG_UNITS[operator]}, state.best, state.lists)

    work, derivation = _derived(OPERATORS[operator])
    monkeypatch.setattr(replay.Folder, "_identity", wrong)
    with pytest.raises(fg.LawViolation, match="identity fails"):
        attempt(work, derivation, lowered(work, derivation), 0)


# ---- and nothing else is ----


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_unbroken_operator_passes(operator):
    work, derivation = _derived(OPERATORS[operator])
    attempt(work, derivation, lowered(work, derivation), 0)


def test_there_are_enough_mutants():
    assert len(OPERATORS) >= 10
    count = sum(map(len, EDITS.values())) + len(LOWERED) + len(MERGES) + len(WRONG_UNITS)
    assert count >= 50


# ---- what the proofs say to broken transports ----


def _closed(pipeline: fg.Pipeline, name: str) -> tuple[Any, Any]:
    """Setting and transport of a merged sum, as the algebra has them before they are spelled."""
    graph = pipeline.work().graph
    derivation = derive(graph)
    entries = {graph[e.name]: e for e in derivation}
    setting = read_setting(graph, graph[name].arg, entries)
    closed = close(best_candidate(setting), frozenset(r.symbol for r in setting.changing))
    return setting, closed


def _statuses(setting: Any, closed: Any) -> dict[str, str]:
    return {o.name: o.status for o in obligations_of(setting, closed)}


def _scaled(matrix: Any, k: int, j: int, factor: Any) -> Any:
    copy = matrix.copy()
    copy[k, j] = copy[k, j] * factor
    return copy


def _last_sum(pipeline: fg.Pipeline) -> str:
    return [e.name for e in pipeline.derivation() if isinstance(e, Dependent)][-1]


@pytest.mark.long
@pytest.mark.parametrize("operator", ["normaliser", "entropy", "var_mean", "squares", "covariance"])
def test_the_pointwise_identity_is_not_proved_for_any_broken_factor(operator):
    pipeline = OPERATORS[operator]
    setting, closed = _closed(pipeline, _last_sum(pipeline))
    assert set(_statuses(setting, closed).values()) == {"proved"}
    size = closed.transport.shape[0]
    broken = 0
    for k in range(size):
        for j in range(size):
            if closed.transport[k, j] != 0:
                for factor in (0, 2, -1):
                    mutant = replace(closed, transport=_scaled(closed.transport, k, j, factor))
                    assert _statuses(setting, mutant)["pointwise identity"] == "not proved"
                    broken += 1
    assert broken >= 3


def test_cocycle_and_unit_alone_would_let_wrong_transports_through():
    """T = exp(2δ), and a doubled cross term, are cocycles too: only the pointwise identity says
    that they move something else."""
    setting, closed = _closed(normaliser, _last_sum(normaliser))
    squared = replace(closed, transport=closed.transport.applyfunc(lambda e: e**2))
    found = _statuses(setting, squared)
    assert (found["cocycle"], found["unit"]) == ("proved", "proved")
    assert found["pointwise identity"] == "not proved"

    entropy = fg.library.entropy
    setting, closed = _closed(entropy, _last_sum(entropy))
    cross = [(k, j) for k in range(2) for j in range(2) if k != j and closed.transport[k, j] != 0]
    ((k, j),) = cross
    found = _statuses(setting, replace(closed, transport=_scaled(closed.transport, k, j, 2)))
    assert (found["cocycle"], found["unit"]) == ("proved", "proved")
    assert found["pointwise identity"] == "not proved"


def test_a_wrong_readout_is_not_proved():
    setting, closed = _closed(fg.library.entropy, _last_sum(fg.library.entropy))
    terms = {h: c * sp.Integer(2) for h, c in closed.candidate.terms.items()}
    mutant = replace(closed, candidate=replace(closed.candidate, terms=terms))
    assert _statuses(setting, mutant)["read-out"] == "not proved"


def test_trials_do_not_disturb_numpy_or_mpmath():
    import mpmath

    before = (mpmath.mp.dps, np.geterr())
    fg.check(normaliser)
    assert (mpmath.mp.dps, np.geterr()) == before
