"""Merges that are equal over the reals are used only where they are right in floats.

Oracles here are NumPy in float64 and plain loops; none is the judge, its facts, or `p.reference`.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.accepted import ACCEPTED
from support.pace import within

import fusegen as fg
from fusegen.algebra.derive import derive
from fusegen.algebra.facts.pivots import Pivots, falls, grows
from fusegen.algebra.proof.record import from_json, to_json
from fusegen.compile.lower.online import online_kernel
from fusegen.ir.derivation import Dependent, RefusalKind
from fusegen.ir.witness import Stray
from fusegen.oracle.replay import RowsReplay, balanced, chain

N = 2048
RNG = np.random.default_rng(0)
INF = float("inf")
EPS = 2.0**-24


def derived(text, **flags):
    """Before another pivot is looked for."""
    return derive(fg.pipeline(**flags)(text).work(form="safe", dtype="float32").graph)


def softmax64(x):
    e = np.exp(x - x.max())
    return e / e.sum()


# ---- what was proved, and wrong ----

normal = RNG.standard_normal(N)
late = np.r_[np.zeros(N - 1), 110.0]
halves = np.r_[np.full(N // 2, 1e5), np.full(N // 2, -1e5)]
thirds = np.r_[np.full(N // 4, 1e5), RNG.standard_normal(N // 2), np.full(N // 4, -1e5)]
absent = np.r_[np.zeros(N // 2), np.ones(N // 2)]
rising = np.linspace(-1e5, 0, N)
tiny = np.r_[np.full(N // 2, 1e-25), np.ones(N // 2)]
gaps = np.r_[0.0, -1e-6 * RNG.random(N - 1)]
dominant = np.r_[np.zeros(1), np.full(N - 1, -22.0)]
inner = np.r_[np.zeros(N // 4), np.ones(N // 2), np.zeros(N // 4)]


def weighted(x, w):
    w = fg.abs(w)
    return fg.mean((x - fg.sum(w * x) / fg.sum(w)) ** 2)


def spread(x):
    p = fg.library.softmax(x)
    return fg.sum(p * (1 - p))


def below(x):
    p = fg.library.softmax(x)
    return fg.sum(fg.where(x < fg.max(x), p, 0))


def standardised(x):
    mu = fg.mean(x)
    return fg.mean(((x - mu) / fg.sqrt(fg.mean((x - mu) ** 2))) ** 3)


WRONG = {
    "another's maximum": (
        lambda x, y: fg.sum(fg.exp(x - fg.max(y))), np.full(N, 100.0), late,
        lambda x, y: np.exp(x - y.max()).sum(),
    ),
    "another's mean": (
        lambda x, y: fg.sum((x - fg.mean(y)) ** 2), normal, halves,
        lambda x, y: ((x - y.mean()) ** 2).sum(),
    ),
    "squares below another's maximum": (
        lambda x, y: fg.sum((x - fg.max(y)) ** 2), normal, rising,
        lambda x, y: ((x - y.max()) ** 2).sum(),
    ),
    "a mean of other weights": (
        weighted, normal + 1e4, absent,
        lambda x, w: np.mean((x - (w * x).sum() / w.sum()) ** 2),
    ),
    "another's scale": (
        lambda x, y: fg.sum((x / fg.max(fg.abs(y))) ** 2), tiny * (1 + RNG.random(N)), tiny,
        lambda x, y: ((x / np.abs(y).max()) ** 2).sum(),
    ),
    "foreign weights about the mean": (
        lambda x, y: fg.sum(y**2 * (x - fg.mean(x)) ** 2), thirds, inner,
        lambda x, y: (y**2 * (x - x.mean()) ** 2).sum(),
    ),
    "midrange": (
        lambda x: fg.sum((x - (fg.max(x) + fg.min(x)) / 2) ** 2),
        np.r_[np.full(N // 2, 3000.0), np.full(N // 2 - 1, 1000.3), -1000.0], None,
        lambda x: ((x - (x.max() + x.min()) / 2) ** 2).sum(),
    ),
    "selected probabilities": (
        below, normal - 100, None, lambda x: softmax64(x)[x < x.max()].sum(),
    ),
    "selected exponentials": (
        lambda x: fg.sum(fg.where(x < fg.max(x), fg.exp(x - fg.max(x)), 0)),
        normal - 200, None, lambda x: np.exp(x - x.max())[x < x.max()].sum(),
    ),
    "selected at the minimum": (
        lambda x: fg.sum(fg.where(x > fg.min(x), fg.exp(fg.min(x) - x), 0)),
        normal + 100, None, lambda x: np.exp(x.min() - x)[x > x.min()].sum(),
    ),
    "expm1": (
        lambda x: fg.sum(fg.expm1(x - fg.max(x))), gaps, None,
        lambda x: np.expm1(x - x.max()).sum(),
    ),
    "a quotient by the range": (
        lambda x: fg.sum(x / (fg.max(x) - fg.min(x))), normal + 5, None,
        lambda x: (x / (x.max() - x.min())).sum(),
    ),
    "subnormal": (
        lambda x: fg.sum(x / fg.max(x)), np.r_[np.full(N - 1, 1e-40), 2e-40], None,
        lambda x: (x / x.max()).sum(),
    ),
    "powers that are only formed divided": (
        standardised, np.abs(normal) ** 3 * 1e15, None,
        lambda x: np.mean(((x - x.mean()) / x.std()) ** 3),
    ),
    "an exponential that is never formed": (
        lambda x, y: fg.sum(fg.exp(x + y - fg.max(x))), np.linspace(-100, 0, N),
        np.linspace(120, 0, N), lambda x, y: np.exp(x + y - x.max()).sum(),
    ),
}
"""text, x, y, the value in float64; y None: the text takes x alone."""


@fg.pipeline
def all_of_them(x, y):
    """One source for all."""
    return tuple(text(x) if alone is None else text(x, y) for text, _, alone, _ in WRONG.values())


@pytest.mark.long
@pytest.mark.parametrize("chunk", [None, 1])
def test_results_are_right_where_proofs_over_the_reals_were_not_enough(chunk):
    x = np.array([row for _, row, _, _ in WRONG.values()], np.float32)
    y = np.array([normal if row is None else row for _, _, row, _ in WRONG.values()], np.float32)
    form = "auto" if chunk is None else "online"
    found = all_of_them.compile(x, y, form=form, chunk=chunk)(x, y)
    for i, (name, (_, _, alone, right)) in enumerate(WRONG.items()):
        a, b = x[i].astype(np.float64), y[i].astype(np.float64)
        with np.errstate(all="ignore"):
            want = right(a) if alone is None else right(a, b)
        assert found[i][i] == pytest.approx(want, rel=2e-3), name


@pytest.mark.long
@pytest.mark.parametrize("value", [-200.0, 88.0, 0.0])
def test_a_selection_of_nothing_is_nothing(value):
    x = np.array([[value]], np.float32)
    for p in (WRONG["selected exponentials"][0], WRONG["selected probabilities"][0]):
        assert fg.pipeline(p)(x) == [0.0]


@pytest.mark.long
def test_specials_are_the_texts():
    @fg.pipeline
    def asked(x):
        m = fg.max(fg.where(x > 0, x, -INF))
        return (
            fg.sum(fg.where(fg.isinf(x), 0, fg.exp(x - fg.max(x)))),
            fg.sum(fg.where(x > 0, fg.exp(x - m), 0)),
        )

    rows = np.array([[-INF] * 3, [0.0, -INF, -1.0], [-1.0, -2.0, -3.0], [INF, 1.0, -INF]])
    first, second = asked(rows.astype(np.float32))
    np.testing.assert_allclose(first, [0.0, 1.0 + np.exp(-1.0), 1 + np.exp(-1) + np.exp(-2), 0.0])
    np.testing.assert_allclose(second[:3], [0.0, 0.0, 0.0])
    constant = fg.pipeline(WRONG["a quotient by the range"][0])
    assert np.isinf(constant(np.full((1, 5), 2.7, np.float32))[0])


# ---- what the rule says ----

KINDS = {
    RefusalKind.UNBOUNDED: [
        lambda x: fg.sum(fg.exp(x - fg.mean(x))), WRONG["another's maximum"][0],
        WRONG["an exponential that is never formed"][0],
    ],
    RefusalKind.DRIFT: [
        WRONG["another's mean"][0], WRONG["foreign weights about the mean"][0], weighted,
    ],
    RefusalKind.RANGE: [
        standardised, WRONG["another's scale"][0],
    ],
    RefusalKind.MIXED_SIGN: [
        WRONG["expm1"][0], spread, lambda x: fg.sum(1 - fg.exp(x - fg.max(x))),
        lambda x: fg.sum((x / fg.max(fg.abs(x))) ** 2 - (x / fg.max(fg.abs(x))) ** 4),
    ],
    RefusalKind.SPECIAL: [
        lambda x: fg.sum(fg.where(fg.isinf(x), 0, fg.exp(x - fg.max(x)))),
        lambda x: fg.sum(fg.where(fg.isnan(x), 0, fg.exp(x - fg.max(x)))),
    ],
}
REFUSED = [(kind, text) for kind, texts in KINDS.items() for text in texts]


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_a_refusal_says_what_is_wrong_in_floats(kind, text):
    found = derived(text)
    (refusal,) = found.refusals
    assert refusal.kind is kind
    assert "To share the sweep" in refusal.fix
    if isinstance(refusal.witness, Stray):
        w = refusal.witness
        assert not abs(w.merged - w.text) <= 0.05 * abs(w.text)
        row = {n: np.array(values) for n, values in w.values}
        text64 = float(np.asarray(fg.pipeline(text).reference(**row)))
        assert text64 == pytest.approx(w.text, rel=2e-3)
    else:
        assert kind is RefusalKind.MIXED_SIGN, "others have a short row"
        assert "No small witness was found." in str(refusal)
    assert from_json(to_json(found)) == found


SOUND = {
    "D": lambda x, y: fg.sum(y * (x - fg.max(x)) * fg.exp(x - fg.max(x))),
    "D of a greater element": lambda x, y: fg.sum((x - fg.max(fg.maximum(x, y))) ** 2),
    "D of multiples": lambda x, y: fg.sum(fg.exp(2 * x - fg.max(2 * x)) * y),
    "D below": lambda x, y: fg.sum(y * fg.exp(fg.min(x) - x)),
    "M": lambda x, y: fg.sum(
        fg.exp(y / 64) * (x - fg.sum(fg.exp(y / 64) * x) / fg.sum(fg.exp(y / 64))) ** 4
    ),
    "M of fourth powers": lambda x, y: fg.sum((x - fg.mean(x)) ** 4) + fg.sum(y),
    "S": lambda x, y: fg.sum(y * (x / fg.sqrt(fg.sum(x**2))) ** 2),
    "S of multiples": lambda x, y: fg.sum((2 * x / fg.sqrt(fg.mean((2 * x) ** 2) + 1e-6)) ** 2),
    "S between the extremes": lambda x, y: fg.sum(
        y * ((x - fg.min(x)) / (fg.max(x) - fg.min(x) + 1e-8)) ** 3
    ),
    "selection": lambda x, y: fg.sum(fg.where(x == fg.max(x), y, 0)),
    "noise": lambda x, y: fg.sum(
        fg.library.softmax(x) * (fg.library.log_softmax(x) - fg.library.log_softmax(y))
    ),
}
TREES = {"one by one": chain(1), "sevens": chain(7), "halves": balanced(1), "pairs": balanced(16)}
ROWS = {
    "normal": normal, "late": late, "halves": halves, "rising": rising / 1e3, "tiny": tiny,
    "offset": normal + 1e4, "thirds": thirds, "gaps": gaps, "dominant": dominant, "inner": inner,
    "low": normal - 100, "constant": np.full(N, 2.7),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_merge_is_right_along_every_tree(name):
    """Against the terms in float64, with the row values in float64: within the rounding of the
    text's own row values, and a few ulp a level of Σ |terms|."""
    text = SOUND[name]
    p = fg.pipeline(text)
    work = p.work(form="online", dtype="float32")
    assert not work.derivation.refusals, str(work.derivation)
    columns = np.linspace(0, N - 1, 96).astype(int)
    rows = np.array([r[columns] for r in ROWS.values()])
    x = np.repeat(rows, len(rows), axis=0).astype(np.float32)
    y = np.tile(rows, (len(rows), 1)).astype(np.float32)
    kernel = online_kernel(work.graph, work.derivation, work.dtypes)
    given = {work.graph.names[i]: {"x": x, "y": y}[i.name] for i in work.graph.inputs}
    want, safe, terms = sums_of(work.graph, x, y)
    with np.errstate(all="ignore"):
        allowed = 4 * np.abs(safe - want) + 500 * EPS * terms + 1e-30
    for shape, tree in TREES.items():
        replay = RowsReplay(kernel, given, 96)
        replay.run(tree)
        with np.errstate(all="ignore"):
            found = replay.env[work.graph.names[work.graph.outputs[0]]][:, 0].astype(np.float64)
            sound = np.isfinite(want) & np.isfinite(safe) & (terms < 1e36)
            beyond = sound & ~(np.abs(found - want) <= allowed)
        assert sound.sum() > 100
        assert not beyond.any(), (shape, np.flatnonzero(beyond)[:3], found[beyond][:3])


def sums_of(graph, x, y):
    """The result in float64 and in float32, and what its own rounding is in proportion to."""
    from fusegen.ir.kinds import assumed_dtypes
    from fusegen.oracle.reference import every_value
    from fusegen.oracle.rounding import rounding_of

    out = graph.outputs[0]
    dtypes = assumed_dtypes(graph, "float32")
    wide, narrow = (every_value(graph, {"x": x, "y": y}, dtypes, 96, kind)
                    for kind in (np.float64, np.float32))

    def column(values):
        return np.broadcast_to(np.asarray(values, np.float64), (len(x), 1))[:, 0]

    bound = column(rounding_of(out, wide, 96, EPS)) / EPS
    return column(wide[out]), column(narrow[out]), bound


# ---- facts about parts of rows ----


def row_values(x, y):
    m, s = fg.max(x), fg.sum(fg.abs(x))
    return (
        m, fg.min(x), fg.maximum(m, fg.max(y)), s, fg.sqrt(fg.sum(x * x)), m + s, 2 * m,
        fg.maximum(fg.max(x * x), 1.0), fg.mean(fg.abs(x)), fg.mean(x), 0.5 * m, m - fg.min(x),
        fg.max(fg.where(y > 0, x, 0)), fg.sum(fg.abs(x) ** 3) ** (1 / 3), -fg.min(-x),
        fg.maximum(fg.max(fg.abs(x)), fg.abs(fg.mean(y))), fg.minimum(fg.min(x), fg.mean(y)),
        fg.max(fg.maximum(x, -y)), fg.sum(x), fg.sqrt(fg.mean(x**2) + 1e-6), fg.max(fg.exp(x)),
        fg.maximum(fg.sqrt(fg.sum(x**2)), 1e-3), fg.sum(fg.abs(x)) + fg.max(fg.abs(y)),
    )


@pytest.mark.long
def test_facts_hold_at_every_part_of_random_rows():
    p = fg.pipeline(row_values)
    graph = p.work(form="safe", dtype="float32").graph
    x_node = next(n for n in graph.inputs if n.name == "x")
    facts, seen = Pivots(), {"dominates": 0, "spans": 0, "grows": 0}
    rng = np.random.default_rng(4)
    parts = []
    for _ in range(300):
        x, y = (rng.choice([1.0, 3.0, 1e-3]) * rng.standard_normal(12) + rng.choice([0, 0, 5, -5])
                for _ in "xy")
        order = rng.permutation(12)
        less, more = np.sort(order[: rng.integers(1, 6)]), np.sort(order[: rng.integers(6, 13)])
        ends = [np.array([float(np.asarray(v).item()) for v in p.reference(x[k], y[k])])
                for k in (less, more)]
        parts.append((x[less], *ends))
    for k, node in enumerate(graph.outputs):
        side, spanned = facts.dominates(x_node, node), facts.spans(x_node, node)
        for x, small, large in parts:
            room = 1e-9 * (1 + abs(small[k]) + abs(large[k]))
            if side:
                assert np.all(side * (small[k] - x) >= -room), k
            if spanned:
                assert np.all(np.abs(x) <= 1000 * small[k] + room), k
            if grows(node):
                assert large[k] >= small[k] - room, k
            if falls(node):
                assert large[k] <= small[k] + room, k
        seen["dominates"] += side != 0
        seen["spans"] += spanned
        seen["grows"] += grows(node)
    assert seen["dominates"] >= 8
    assert seen["spans"] >= 6
    assert seen["grows"] >= 10


@pytest.mark.parametrize(("size", "scale"), [
    (1e-23, lambda x: fg.sqrt(fg.sum(x * x))), (1e-23, lambda x: fg.sqrt(fg.mean(x**2))),
    (1e-23, lambda x: fg.sqrt(fg.max(x * x))), (1e-15, lambda x: fg.sum(fg.abs(x) ** 3) ** (1 / 3)),
])
def test_a_scale_that_is_0_by_underflow_spans_nothing(size, scale):
    """x² is 0 for |x| < 2⁻⁷⁵: while that is all that was read, x / s would be x / 1."""
    graph = fg.pipeline(lambda x: scale(x)).work(form="safe", dtype="float32").graph
    (x,), (s,) = graph.inputs, graph.outputs
    assert Pivots().reaches(x, s)
    assert not Pivots().spans(x, s)
    rows = size * np.array([[1, 20, 0], [3, 2, 100], [100, 1, 1]])
    (found,) = merged_rows(lambda x: fg.sum((x / scale(x)) ** 2), rows)
    assert np.all(np.isfinite(found))


def merged_rows(text, *inputs):
    """Its outputs by the merge in one sweep, in float32, one element at a time."""
    p = fg.pipeline(text)
    assert p.plan(form="online").sweeps == 1
    work = p.work(form="online", dtype="float32")
    given = {i.name: np.asarray(v, np.float32) for i, v in
             zip(work.graph.inputs, inputs, strict=True)}
    replay = RowsReplay(online_kernel(work.graph, p.derivation(), work.dtypes), given,
                        inputs[0].shape[1])
    replay.run(chain(1))
    return [replay.env[work.graph.names[o]][:, 0] for o in work.graph.outputs]


@pytest.mark.parametrize("weight", [fg.abs, fg.exp, lambda x: x**2])
def test_a_logarithm_beside_a_weight_of_0_is_nothing_as_in_the_text(weight):
    """xlogy(p, p) with p = w / Σ w: over the reals p·log p, which is NaN in floats where w is 0."""
    rows = np.array([[-200, 0, 3, 1], [0, -200, 0, 2], [1.3, -INF, 0, -200], [-INF, 2, 1, -INF]])
    rows = rows if weight is fg.exp else np.maximum(rows, 0)
    with np.errstate(all="ignore"):
        w = {fg.abs: np.abs, fg.exp: np.exp}.get(weight, np.square)(rows)
        p = w / w.sum(1, keepdims=True)
        want = -np.where(p > 0, p * np.log(p), 0).sum(1)

    def entropy(x):
        q = weight(x) / fg.sum(weight(x))
        return -fg.sum(fg.xlogy(q, q))

    (found,) = merged_rows(entropy, rows)
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_coefficient_that_overflows_beside_a_sum_of_nothing():
    """p² · Σ [mask] is p · Σ · p: nothing is chosen, and p² is infinite."""
    rows = np.array([[-1e25, -2e25], [-1e25, 0], [-1, -3]])
    (found,) = merged_rows(
        lambda x: fg.sum(fg.where(x > 0, (x * -3 - fg.sum(fg.abs(x))) ** 2, 0)), rows
    )
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("text", [
    lambda x: fg.sum(fg.where(x > 0, (x * -1 - fg.mean(x)) ** 2, 0)),
    lambda x: fg.sum((x * -1 - fg.max(x)) * (x**2 - fg.max(x**2))),
    lambda x, y: fg.sum((x - fg.min(y)) * (y - fg.max(y)) - (x - fg.min(x)) ** 3),
])
def test_a_read_out_is_conditioned_where_every_term_is_close_to_0_too(text):
    """Terms that vanish together where a row value meets the elements, as −x − mean x does at a
    few whole numbers."""
    (refusal,) = derived(text).refusals
    assert refusal.kind in (RefusalKind.MIXED_SIGN, RefusalKind.DRIFT)


@pytest.mark.parametrize("text", [
    lambda x: fg.sum((x - fg.mean(x)) ** 2 * (x - fg.max(x))),
    lambda x: fg.sum((fg.abs(x) - fg.mean(fg.abs(x))) ** 2 * (x - fg.max(fg.abs(x)))),
    lambda x, y: fg.sum((x - fg.mean(x)) ** 2 * (fg.max(y) - y)),
])
def test_a_square_about_the_mean_beside_what_is_0_at_an_extreme_drifts(text):
    """The element at the extreme has no weight at last, and moves the mean all the same."""
    (refusal,) = derived(text).refusals
    assert refusal.kind is RefusalKind.DRIFT


def test_a_refusal_beside_a_selection_has_a_row_too():
    """The row that shows why is looked for by a replay that knows of [x = p] as well."""
    found = derived(lambda x, y: fg.sum(
        fg.exp(x - fg.max(y)) + fg.where(x == fg.max(x), y, 0)
    ))
    (refusal,) = found.refusals
    assert refusal.witness is not None


def test_facts_take_time_in_proportion_to_the_graph():
    def deep(x):
        p = fg.max(x)
        for k in range(30):
            p = fg.maximum(p, p * (1.0 + k))
        return fg.sum(fg.exp(x - p))

    import time

    start = time.process_time()
    derived(deep)
    assert within(time.process_time() - start, 20)


# ---- what derivations say ----


def test_range_and_conditioning_are_obligations_of_their_own():
    for pipeline in (*fg.library.PIPELINES.values(), *ACCEPTED.values()):
        for entry in pipeline.derivation():
            if isinstance(entry, Dependent):
                held = {o.name: o for o in entry.obligations}
                assert held["range"].status == "proved", pipeline.name
                assert held["conditioning"].status in ("proved", "tried"), pipeline.name
    assert "range: x ≤ m at every part of the row" in str(fg.library.softmax.derivation())
    kl = str(ACCEPTED["kl_divergence"].derivation())
    assert "tried     conditioning" in kl
    assert "hard rows" in kl
    assert "Π ‖factors‖" in str(ACCEPTED["covariance"].derivation())


def test_what_the_user_allows_is_assumed():
    brave = fg.pipeline(allow_cancellation=True)(spread).derivation()
    assert not brave.refusals
    assert [o.status for o in brave.obligations if o.name == "conditioning"][-1] == "assumed"
    drift = derived(KINDS[RefusalKind.DRIFT][0], allow_cancellation=True)
    assert drift.refusals, "a pivot that drifts is no cancellation in the read-out"


def test_an_exponential_that_grows_is_kept_about_its_own_maximum():
    """About the minimum, the greatest terms would be those that moved most often."""
    p = fg.pipeline(lambda x: fg.sum(fg.exp(x - fg.min(x))))
    assert p.plan(form="online").sweeps == 1
    (repair,) = p.derivation().repairs
    assert "max" in str(repair)


def test_nothing_accepted_is_lost():
    for pipeline in ACCEPTED.values():
        assert not pipeline.derivation().refusals, pipeline.name


WEIGHT = {
    "a logarithm in an exponential": lambda y: fg.exp(fg.log(y)),
    "the square of a root": lambda y: fg.sqrt(y) ** 2,
    "a number over itself": lambda y: y / y,
    "a square over its root": lambda y: (y * y) / y,
    "a power and its inverse": lambda y: y**-1 * y,
    "a root's inverse squared": lambda y: fg.rsqrt(y) ** 2 * y,
    "a division by less": lambda y: y / (y * y),
    "a logarithm less itself": lambda y: fg.log(y) - fg.log(y) + 1,
    "a product over its factor": lambda y: fg.xlogy(y, y) / y,
    "nothing of it": lambda y: y * 0 + 1,
    "it less itself": lambda y: fg.exp(y - y),
}
KEPT = {
    "a root": lambda y: fg.sqrt(y), "an inverse root": lambda y: fg.rsqrt(y + 1),
    "a logarithm": lambda y: fg.log(2 * y), "a power": lambda y: y**-1.5,
    "never negative": lambda y: fg.sqrt(fg.abs(y)) ** 2,
    "always positive": lambda y: fg.log(fg.exp(y)),
}
OUTSIDE = np.array([[1, -2, 3], [1, 0, 3], [1, np.nan, 3], [1, np.inf, 3]])


@pytest.mark.parametrize("name", [*WEIGHT, *KEPT])
def test_what_sympy_simplifies_away_is_not_merged(name):
    """Where a partial operation, or an element, is left of no basis function, a finite answer
    would stand for the text's NaN; where it is still computed, the sum is merged."""
    weight = {**WEIGHT, **KEPT}[name]
    found = derived(lambda x, y: fg.sum(fg.exp(x - fg.max(x)) * weight(y)))
    if name in KEPT:
        assert not found.refusals, str(found)
        return
    (refusal,) = found.refusals
    assert refusal.kind in (RefusalKind.SPECIAL, RefusalKind.RANGE), str(refusal)
    assert "To share the sweep" in refusal.fix


@pytest.mark.parametrize("text", [
    lambda x, y: fg.sum((x - fg.mean(x) + y - y) ** 2),
    lambda x, y: fg.sum((y - y + x - fg.max(y)) ** 2),
    lambda x, y: fg.sum(y / y * (x - fg.max(y)) ** 2),
    lambda x, y: fg.sum(y / y / fg.sum(fg.abs(x))),
    lambda x, y: fg.max(fg.log(y) / fg.sum(fg.abs(x))),
    lambda x, y: fg.max(fg.sqrt(y) ** 2 - fg.max(y)),
])
def test_nan_of_the_text_stays_in_repairs_and_orders_too(text):
    p, x = fg.pipeline(text), np.array([[0.5, 1, -2]] * len(OUTSIDE), np.float32)
    y = OUTSIDE.astype(np.float32)
    with np.errstate(all="ignore"):
        due = np.asarray(p.reference(x, y), np.float64)
    np.testing.assert_array_equal(np.isnan(p(x, y)), np.isnan(due))
