"""Every refusal's counterexample, recomputed with the reference: what it claims is so."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from support.cases import leaves

import fusegen as fg
from fusegen.algebra import exact, numbers
from fusegen.algebra.derive import derive
from fusegen.algebra.pivot import MAX_BASIS
from fusegen.algebra.refute import ratio
from fusegen.ir.derivation import RefusalKind
from fusegen.ir.ops import OPS
from fusegen.ir.witness import Confusion, Disorder, Ratio, Row, Stray

FLOAT32_MAX = float(np.finfo(np.float32).max)


def softmax_of(x):
    return fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x)))


def refusal_of(pipeline):
    """The refusal of the last reduction, derived afresh."""
    graph = pipeline.traced(frozenset(pipeline.signature.arrays), {}).graph
    return derive(graph).refusals[-1]


def reference(pipeline, row: Row, inputs=()):
    """All results of the text on one row, as one list of numbers."""
    names = pipeline.signature.arrays
    arrays = [np.array([row.floats(n)]) if n not in inputs else inputs[n] for n in names]
    found = leaves(pipeline.reference(*arrays))
    return np.concatenate([np.asarray(f, np.float64).reshape(-1) for f in found])


def joined(row: Row, then: Row) -> Row:
    assert row.unit == then.unit
    both = zip(row.values, then.values, strict=True)
    return Row(tuple((name, a + b) for (name, a), (_, b) in both), row.unit)


# ---- two rows that the state confuses: texts return their state, the refused value last ----


def relu(x):
    m = fg.mean(x)
    return m, fg.sum(fg.maximum(x - m, 0))


def deviation(x):
    m = fg.mean(x)
    return m, fg.sum(fg.abs(x - m))


def above_the_mean(x):
    m = fg.mean(x)
    return m, fg.count(x > m)


def likely(x):
    m, y = fg.max(x), softmax_of(x)
    return m, fg.sum(fg.exp(x - m)), fg.mean(y), fg.count(y > fg.mean(y))


def quantized(levels):
    def text(x):
        a = fg.max(fg.abs(x))
        return a, fg.sum(fg.round(levels * x / a))

    return text


def near_the_second(x):
    values, columns = fg.topk(x, 2)
    return values, columns, fg.count(x > fg.min(values) - 2)


def above_an_element(x):
    i = fg.argmin(fg.abs(x - 1))
    return i, fg.min(fg.abs(x - 1)), fg.count(x > fg.take(x, i))


def gaussian(x):
    m = fg.mean(x)
    return m, fg.sum(fg.exp(-((x - m) ** 2)))


def tanh(x):
    m = fg.mean(x)
    return m, fg.sum(fg.tanh(x - m))


def softplus(x):
    m = fg.max(x)
    return m, fg.sum(fg.log1p(fg.exp(x - m)))


def sine(x):
    m = fg.max(x)
    return m, fg.sum(fg.sin(x * m))


def cauchy(x):
    m = fg.mean(x)
    return m, fg.sum(1 / (1 + (x - m) ** 2))


def seventh(x):
    m = fg.mean(x)
    return m, fg.sum((x - m) ** 7)


def floors(x):
    m = fg.max(x)
    return m, fg.sum(fg.floor(x - m))


def two_inputs(x, y):
    m = fg.mean(y)
    return m, fg.sum(fg.maximum(x - m, 0))


def by_position(x):
    m = fg.mean(x)
    return m, fg.sum(fg.index(x) * fg.maximum(x - m, 0))


CONFUSED = {
    "relu": (relu, RefusalKind.KINK),
    "absolute deviation": (deviation, RefusalKind.KINK),
    "threshold": (above_the_mean, RefusalKind.KINK),
    "threshold of softmax": (likely, RefusalKind.KINK),
    "rounding, 4 levels": (quantized(4), RefusalKind.STUCK_ATOM),
    "rounding, 127 levels": (quantized(127), RefusalKind.STUCK_ATOM),
    "near the second greatest": (near_the_second, None),
    "above an element": (above_an_element, RefusalKind.ORDER),
    "gaussian": (gaussian, RefusalKind.STUCK_ATOM),
    "tanh": (tanh, RefusalKind.STUCK_ATOM),
    "softplus": (softplus, RefusalKind.STUCK_ATOM),
    "sine of a product": (sine, RefusalKind.STUCK_ATOM),
    "cauchy": (cauchy, RefusalKind.STUCK_ATOM),
    "seventh moment": (seventh, RefusalKind.TOO_MANY_STATES),
    "floor": (floors, RefusalKind.KINK),
    "two inputs": (two_inputs, RefusalKind.KINK),
    "positions": (by_position, RefusalKind.KINK),
}


@pytest.mark.parametrize(("text", "kind"), CONFUSED.values(), ids=CONFUSED.keys())
def test_equal_states_have_different_futures(text, kind):
    pipeline = fg.pipeline(text)
    refusal = refusal_of(pipeline)
    assert kind is None or refusal.kind is kind
    w = refusal.witness
    assert isinstance(w, Confusion)
    assert len(w.first) == len(w.second) <= 6
    first, second = reference(pipeline, w.first), reference(pipeline, w.second)
    assert len(w.shared) == len(leaves(pipeline.reference(*([np.ones(6)] * len(w.first.values)))))
    np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)
    a, b = (reference(pipeline, joined(r, w.then))[-1] for r in (w.first, w.second))
    assert abs(a - b) > 1e-6
    for shown, value in zip(w.results, (a, b), strict=True):
        assert _number(shown) == pytest.approx(value, rel=1e-5)
    assert _number(w.shared[-1][1]) == pytest.approx(first[-1], rel=1e-5, abs=1e-12)


def _number(shown: str) -> float:
    """As witnesses print numbers: 3/2, 0.75, 2·ln 2."""
    scale = log(2) if shown.endswith("ln 2") else 1.0
    plain = shown.removesuffix("ln 2").removesuffix("·")
    over, _, under = (plain if plain not in ("", "-") else f"{plain}1").partition("/")
    return float(over) / float(under or 1) * scale


def test_the_message_can_be_checked_by_hand():
    shown = str(refusal_of(fg.pipeline(above_the_mean)))
    assert "Rows x = (-1, 0) and x = (-2, 1) both have n = 2, m = -1/2, sum_where = 1;" in shown
    assert "after appending x = (1) the text gives 1 and 2:" in shown
    assert shown.splitlines()[-1].strip() == "It keeps a sweep of its own; the result is the same."
    assert "·ln 2" in str(refusal_of(fg.pipeline(softplus)))


def test_inputs_per_row_are_told():
    @fg.pipeline
    def scaled(x, t: fg.PerRow):
        m = fg.mean(x)
        return m, fg.sum(fg.maximum(x - m * t, 0))

    w = refusal_of(scaled).witness
    assert isinstance(w, Confusion)
    assert w.given == (("t", 1),)
    assert "(t = 1)" in str(w)
    a, b = (reference(scaled, joined(r, w.then), {"t": np.ones(1)})[-1]
            for r in (w.first, w.second))
    assert abs(a - b) > 1e-6


# ---- terms that move by different factors ----


def layer_norm_of(x):
    return (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + 1e-5)


def mp_softmax(x):
    powers = [mp.exp(v) for v in x]
    return [p / mp.fsum(powers) for p in powers]


def mp_layer_norm(x):
    mean = mp.fsum(x) / len(x)
    var = mp.fsum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / mp.sqrt(var + mp.mpf("1e-5")) for v in x]


def mp_about_the_greatest(x):
    return [mp.exp(v - max(x)) for v in x]


RATIOS = {
    "temperature": (
        lambda x: fg.exp((x - fg.max(x)) / fg.sqrt(fg.mean(x**2))),
        lambda x: mp_about_the_greatest(
            [v / mp.sqrt(mp.fsum(w * w for w in x) / len(x)) for v in x])),
    "softmax of softmax": (
        lambda x: fg.exp(softmax_of(x) - fg.max(softmax_of(x))),
        lambda x: mp_about_the_greatest(mp_softmax(x))),
    "softmax of layer norm": (
        lambda x: fg.exp(layer_norm_of(x) - fg.max(layer_norm_of(x))),
        lambda x: mp_about_the_greatest(mp_layer_norm(x))),
}


@pytest.mark.parametrize(("term", "digits"), RATIOS.values(), ids=RATIOS.keys())
def test_no_single_factor_moves_the_sum_nor_do_several(term, digits):
    refusal = refusal_of(fg.pipeline(lambda x: fg.sum(term(x))))
    assert refusal.kind is RefusalKind.STUCK_ATOM
    w = refusal.witness
    assert isinstance(w, Ratio)
    terms = fg.pipeline(lambda x: term(x))
    before, after = (reference(terms, r)[:2] for r in (w.row, joined(w.row, w.then)))
    np.testing.assert_allclose(w.before, before, rtol=1e-9)
    np.testing.assert_allclose(w.after, after, rtol=1e-9)
    one, other = after / before
    assert abs(one - other) > 1e-3 * max(abs(one), abs(other))
    assert w.wider is not None
    x, more = (r.floats("x") for r in w.wider)
    assert len(x) == len(more) == MAX_BASIS + 1
    with mp.workdps(150):
        rows = [digits([mp.mpf(v) for v in (*x, b)])[: len(x)] for b in more]
        assert abs(mp.det(mp.matrix(rows))) > mp.mpf(10) ** -100  # 150 digits were kept


@pytest.mark.parametrize(("power", "sums"), [(6, 7), (7, 8)])
def test_ranks_count_the_sums_that_are_needed(power, sums):
    graph = fg.pipeline(lambda x: fg.sum((x - fg.mean(x)) ** power)).work().graph
    found = ratio(graph, graph.reductions[-1])
    assert found is not None
    assert (found.wider is None) is (sums <= MAX_BASIS)


# ---- float32 ----


def merged_by_hand(x, pivots, lift, transport):
    """S ← T(p → q)·S + h(x − q), one element at a time in float32; sums about a moving pivot."""
    sums, old = np.zeros(len(lift(np.float32(0), 0)), np.float32), None
    with np.errstate(all="ignore"):
        for k, q in enumerate(pivots):
            if old is not None:
                sums = np.float32(transport(np.float32(old - q))) @ sums
            sums, old = sums + np.float32(lift(np.float32(x[k] - q), k)), q
    return sums


def row_of(witness):
    return {n: np.array(v, np.float32) for n, v in witness.values}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 5).flatmap(lambda n: st.lists(
    st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=n, max_size=n)))
def test_independence_is_full_rank(rows):
    """Also of matrices whose elimination leaves a column of zeros."""
    assert numbers.independent(rows) == (np.linalg.matrix_rank(np.array(rows)) == len(rows))


@pytest.mark.parametrize("sign", [1, -1])
def test_an_exponential_about_the_mean_leaves_the_range(sign):
    pipeline = fg.pipeline(lambda x: fg.sum(fg.exp(sign * (x - fg.mean(x)))))
    refusal = refusal_of(pipeline)
    assert refusal.kind is RefusalKind.UNBOUNDED
    w = refusal.witness
    assert isinstance(w, Stray)
    x = row_of(w)["x"]
    means = [np.mean(x[: k + 1], dtype=np.float32) for k in range(len(x))]
    (found,) = merged_by_hand(
        x, means, lambda u, k: [np.exp(sign * u)], lambda d: [[np.exp(sign * d)]]
    )
    assert not abs(found - w.text) <= 0.1 * abs(w.text)
    assert found == pytest.approx(w.merged, rel=1e-3, nan_ok=True)
    assert float(pipeline.reference(x)) == pytest.approx(w.text, rel=1e-3)


def test_squares_about_another_elements_mean_drift():
    pipeline = fg.pipeline(lambda x, y: fg.sum((x - fg.mean(y)) ** 2))
    refusal = refusal_of(pipeline)
    assert refusal.kind is RefusalKind.DRIFT
    w = refusal.witness
    assert isinstance(w, Stray)
    row = row_of(w)
    x, y = row["x"], row["y"]
    means = [np.mean(y[: k + 1], dtype=np.float32) for k in range(len(y))]
    found = merged_by_hand(
        x, means, lambda u, k: [u * u, u, 1], lambda d: [[1, 2 * d, d * d], [0, 1, d], [0, 0, 1]]
    )[0]
    assert abs(found - w.text) > 0.1 * w.text
    assert float(pipeline.reference(x, y)) == pytest.approx(w.text, rel=1e-3)
    assert f"the merged sum gives {w.merged:.6g}, the text {w.text:.6g}" in str(refusal)


def test_raw_moments_lose_the_digits_of_the_result():
    def text(x):
        return fg.sum((x - fg.sum(fg.exp(x - fg.max(x)))) ** 2)

    refusal = refusal_of(fg.pipeline(text))
    assert refusal.kind is RefusalKind.MIXED_SIGN
    w = refusal.witness
    assert isinstance(w, Stray)
    x = row_of(w)["x"]
    assert w.text == pytest.approx(float(fg.pipeline(text).reference(x)), rel=0.1)
    s = np.sum(np.exp(x - x.max()), dtype=np.float32)
    moments = [np.sum(x**k, dtype=np.float32) for k in (0, 1, 2)]
    raw = moments[2] - np.float32(2) * s * moments[1] + s * s * moments[0]
    assert abs(raw - w.text) > 0.1 * abs(w.text)


def test_squares_about_a_mean_of_another_element_cancel():
    pipeline = fg.pipeline(lambda x, y: fg.sum((x * y - fg.mean(y)) ** 2))
    refusal = refusal_of(pipeline)
    assert refusal.kind in (RefusalKind.MIXED_SIGN, RefusalKind.DRIFT)
    w = refusal.witness
    assert isinstance(w, Stray)
    row = row_of(w)
    assert float(pipeline.reference(row["x"], row["y"])) == pytest.approx(w.text, rel=1e-3)
    assert not abs(w.merged - w.text) <= 0.1 * abs(w.text)


@pytest.mark.parametrize("text", [
    lambda x: fg.sum(fg.where(fg.isinf(x), 0, fg.exp(x - fg.max(x)))),
    lambda x: fg.sum(fg.where(fg.isfinite(x), fg.exp(x - fg.max(x)), 0)),
])
def test_a_pivot_without_a_value_where_the_text_has_one(text):
    refusal = refusal_of(fg.pipeline(text))
    assert refusal.kind is RefusalKind.SPECIAL
    w = refusal.witness
    assert isinstance(w, Stray)
    assert np.isnan(w.merged)
    assert float(fg.pipeline(text).reference(*row_of(w).values())) == w.text


# ---- order ----

DISORDERED = {
    "square": (lambda x: (x - fg.mean(x)) ** 2, "topk", False),
    "magnitude": (lambda x: fg.abs(x - fg.mean(x)), "topk", False),
    "silu": (lambda x: (x - fg.max(x)) * fg.sigmoid(x - fg.max(x)), "topk", False),
    "least silu": (lambda x: (x - fg.max(x)) * fg.sigmoid(x - fg.max(x)), "argmin", False),
    "relu": (lambda x: fg.maximum(x - fg.mean(x), 0), "topk", True),
    "floor": (lambda x: fg.floor(x - fg.max(x)), "topk", True),
    "least magnitude": (lambda x: fg.abs(x - fg.mean(x)), "argmin", False),
}


@pytest.mark.parametrize(("f", "how", "flat"), DISORDERED.values(), ids=DISORDERED.keys())
def test_the_order_of_f_is_not_that_of_x(f, how, flat):
    def columns(g):
        found = fg.pipeline(lambda x: fg.topk(g(x), 2)[1] if how == "topk" else fg.argmin(g(x)))
        return lambda x: tuple(np.atleast_1d(found.reference(x)).tolist())

    pipeline = fg.pipeline(lambda x: fg.topk(f(x), 2) if how == "topk" else fg.argmin(f(x)))
    refusal = refusal_of(pipeline)
    assert refusal.kind is RefusalKind.NON_MONOTONE
    w = refusal.witness
    assert isinstance(w, Disorder)
    x = np.array(w.row.floats("x"))
    values = fg.pipeline(lambda x: f(x)).reference(x)
    np.testing.assert_allclose(w.terms, np.stack([x, values], 1), atol=1e-12)
    assert (len(set(values)) < len(values)) is flat
    assert columns(f)(x) == w.by_text
    assert columns(lambda x: x * 1.0)(x) == w.by_order != w.by_text
    assert columns(lambda x: -x)(x) == w.by_reverse != w.by_text


def test_a_top_k_of_many_columns_has_a_short_witness():
    refusal = refusal_of(fg.pipeline(lambda x: fg.topk(fg.abs(x - fg.mean(x)), 40)))
    assert isinstance(refusal.witness, Disorder)
    assert len(refusal.witness.row) == 3


# ---- none, where there is none; every kind has its advice ----

NONE = {
    "magnitudes about the greatest": lambda x: fg.sum(fg.abs(x - fg.take(x, fg.argmax(x)))),
    "always 0": lambda x: fg.prod(x - fg.max(x)),
    "cube": lambda x: fg.topk((x - fg.mean(x)) ** 3, 2),
}


@pytest.mark.parametrize("text", NONE.values(), ids=NONE.keys())
def test_what_could_be_merged_has_no_witness(text):
    found = derive(fg.pipeline(text).traced(frozenset("x"), {}).graph).refusals
    for refusal in found:  # the algebra may learn to merge them
        assert refusal.witness is None
        assert "No small witness was found." in str(refusal)


def test_texts_that_take_no_floats_are_refused_all_the_same():
    @fg.pipeline
    def looked_up(x, i):
        return fg.sum(fg.abs(x - fg.take(x, fg.floor(fg.max(i)))))

    assert refusal_of(looked_up).witness is None


def test_explain_and_check_show_the_witness(capsys):
    pipeline = fg.pipeline(relu)
    for page in (str(pipeline.explain()), str(fg.check(pipeline))):
        assert "after appending x = (1) the text gives 5/2 and 9/4" in page
        assert "fg.PerRow" in page


def test_refusals_are_plain_data():
    for text, _ in CONFUSED.values():
        refusal = refusal_of(fg.pipeline(text))
        copy = pickle.loads(pickle.dumps(refusal))
        assert copy == refusal
        assert str(copy) == str(refusal)


def every_refusal() -> str:
    texts = [*(f for f, _ in CONFUSED.values()),
             *((lambda x, *, f=f: fg.topk(f(x), 2)) for f, *_ in DISORDERED.values()),
             *((lambda x, *, f=f: fg.sum(f(x))) for f, _ in RATIOS.values())]
    return "".join(f"{refusal_of(fg.pipeline(text))}\n" for text in texts)


@pytest.mark.long
def test_witnesses_do_not_depend_on_hash_seeds():
    """Nor on what a process did before, as this one has."""
    script = "import test_witness; print(end=test_witness.every_refusal())"
    folders = [Path(fg.__file__).parents[1], Path(__file__).parent]
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin", "FUSEGEN_CACHE_DIR": "/dev/null/none",
             "PYTHONPATH": ":".join(map(str, folders)),
             "PYTHONPYCACHEPREFIX": os.environ["PYTHONPYCACHEPREFIX"]})
    assert run.stdout == every_refusal()
    assert "after appending" in run.stdout


# ---- the exact arithmetic ----


def test_every_operation_has_an_exact_meaning():
    assert set(numbers.OPERATIONS) == set(OPS)


SMALL = st.lists(st.integers(-3, 3), min_size=5, max_size=7)
TEXTS = [
    # A row of equal probabilities compares 1/n with a mean that float64 rounds.
    *(fg.pipeline(f) for f, _ in CONFUSED.values() if f not in (two_inputs, likely)),
    *(fg.library.PIPELINES[n] for n in (
        "softmax", "log_softmax", "logsumexp", "entropy", "var_mean", "softmax_topk", "norm2",
        "layer_norm", "rms_norm", "moe_gate", "argmax",
    )),
]


@given(values=SMALL, which=st.sampled_from(TEXTS))
@settings(max_examples=150, deadline=None)
def test_exact_arithmetic_agrees_with_the_reference(values, which):
    signature = which.signature
    present = frozenset(signature.arrays) - signature.optional
    graph = which.traced(present, signature.bind_constants({})).graph
    try:
        found = exact.evaluate(graph.outputs, {"x": [Fraction(v) for v in values]},
                               len(values))
    except numbers.Outside:
        return
    wanted = leaves(which.reference(np.array(values, np.float64)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.array(a, np.float64), np.asarray(b, np.float64),
                                   rtol=1e-9, atol=1e-9)


def test_numbers_are_spelled_as_simple_fractions():
    third = Fraction(1, 3)
    assert numbers.spelled(third) == "1/3"
    assert numbers.spelled(numbers.LN2 * 2 * third) == "2/3·ln 2"
    assert numbers.spelled(-numbers.LN2) == "-ln 2"
    assert numbers.spelled(numbers.OPERATIONS["exp"](numbers.LN2 * 3)) == "8"
    assert numbers.spelled(numbers.OPERATIONS["exp"](third)) == "1.39561"


NUMBERS = (Fraction(0), Fraction(1), Fraction(3, 2), Fraction(-2), numbers.LN2, -numbers.LN2 / 7)


@pytest.mark.parametrize("op", sorted(set(numbers.OPERATIONS) - {"where", "and", "or", "not"}))
def test_every_operation_takes_fractions_and_long_numbers_alike(op: str) -> None:
    """A logarithm of 1 is a fraction, of 2 it is not."""
    for args in itertools.product(NUMBERS, repeat=OPS[op].arity if op in OPS else 1):
        with contextlib.suppress(numbers.Outside):
            found = numbers.OPERATIONS[op](*args)
            assert isinstance(found, bool) or found == found
