"""fg.check: what it tries, in which arithmetic, and that it raises no false alarm."""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import check_cases as right
from support.cases import covariance, kl_divergence, skewness_sum, weighted_variance
from support.pace import within

import fusegen as fg
from fusegen.compile.trials import specials
from fusegen.compile.trials.laws import LAWS
from fusegen.compile.trials.orders import exhaust
from fusegen.compile.trials.rows import FAMILIES, cases
from fusegen.compile.trials.specials import by_text
from fusegen.compile.trials.text import values_of
from fusegen.ir.expr import FLOATS, Lit, Var, call, evaluate
from fusegen.ir.monoid import Best, KBest
from fusegen.ir.operator import Operator
from fusegen.ir.ops import OPS
from fusegen.library.check import attempt, lowered
from fusegen.oracle import replay
from fusegen.oracle.precise import exact, precise
from fusegen.oracle.replay import states

L = fg.library.PIPELINES
PIPELINES = [*L.values(), kl_divergence, covariance, skewness_sum, weighted_variance]
NAN, INF = float("nan"), float("inf")


def _work(pipeline):
    inputs = tuple(pipeline.signature.optional)
    return pipeline.work(form="online", dtype="float64", inputs=inputs)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.name)
def test_every_law_is_tried_on_every_kind_of_row(pipeline):
    report = fg.check(pipeline)
    tried = dict(report.laws)
    assert tuple(tried) == LAWS
    assert min(tried.values()) >= 10
    assert report.rows >= 30
    assert report.merges >= 300
    assert report.special_rows >= 15
    assert report.special_merges >= 100
    assert report.tolerance == 1e-30
    names = pipeline.work().graph.names.values()
    has_order = any(n.startswith(("top", "argm")) for n in names)
    assert bool(report.order_merges) == has_order
    shown = str(report)
    assert "held to 1e-30 in 50 digits: identity" in shown
    assert ("orders" in shown) == has_order


@pytest.mark.long
def test_the_same_seed_tries_the_same_rows():
    work = _work(L["entropy"])

    def tried(seed):
        found = cases(work.graph.read, work.dtypes, 1, np.random.default_rng(seed))
        return [str(c) for c in found]

    assert tried(3) == tried(3) != tried(4)
    first, second = fg.check(L["moe_gate"], seed=5), fg.check(L["moe_gate"], seed=5)
    assert first.special_merges == second.special_merges
    assert first.laws == second.laws


def test_rows_begin_short_and_end_ill_conditioned():
    work = _work(L["softmax"])
    found = list(cases(work.graph.read, work.dtypes, 1, np.random.default_rng(0)))
    sizes = [c.n_cols for c in found]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] == 24
    assert {c.family for c in found} == set(FAMILIES)
    for case in found:
        assert sorted(c for p in case.pieces for c in p) == list(range(case.n_cols))
        assert np.all(np.isfinite(case.row["x"]))
    wide = next(c for c in found if c.family.startswith("spread") and c.n_cols == 24)
    assert np.ptp(np.log10(np.abs(wide.row["x"]))) > 30
    far = next(c for c in found if c.family.startswith("offset"))
    assert np.all(far.row["x"] > 9e5)


@pytest.mark.long
def test_a_check_takes_well_under_a_second():
    fg.check(L["softmax"])  # sympy and mpmath are loaded
    start = time.process_time()
    fg.check(L["softmax_topk"])
    fg.check(L["entropy"])
    fg.check(L["var_mean"])
    assert within(time.process_time() - start, 3 * 1.0)


def test_the_counterexample_is_small_and_says_everything(monkeypatch):
    def only_adds(folder, a, b):
        new = right(folder, a, b)
        new.parts |= {v.name: a.parts[v.name] + b.parts[v.name] for v in folder.monoid.moving}
        return new

    right = replay.Folder.merge
    monkeypatch.setattr(replay.Folder, "merge", only_adds)
    with pytest.raises(fg.LawViolation) as caught:
        fg.check(L["softmax"])
    shown = str(caught.value)
    assert "softmax: homomorphism fails for sum_exp" in shown
    assert "fold(A and B) = A ⊕ B is false for the row x = [2, 1] in pieces of columns [0], [1]" \
        in shown
    assert "A = (m = 2.0, sum_exp = 1.0)" in shown
    assert "left 1.367879441, right 2.0" in shown
    assert caught.value.where is not None


def test_a_difference_below_float64_is_shown_in_full(monkeypatch):
    def almost(folder, a, b):
        new = right(folder, a, b)
        new.parts["sum_exp"] = new.parts["sum_exp"] * (1 + folder.call("div", 1, 10**25))
        return new

    right = replay.Folder.merge
    monkeypatch.setattr(replay.Folder, "merge", almost)
    with pytest.raises(fg.LawViolation, match=r"left 1\.0000000000000000000000001"):
        fg.check(L["logsumexp"])


# ---- no false alarms ----


def _texts():
    def cancelling_weights(x, w):
        mu = fg.sum(w * x) / fg.sum(w)
        return fg.sum(w * (x - mu) ** 2)

    return {
        "a threshold on a merged sum": lambda x: fg.where(fg.var(x) >= 0.25, 1.0, 0.0),
        "rounding of a merged sum": lambda x: fg.floor(fg.sum((x - fg.mean(x)) ** 2)),
        "argmax through a function that levels off": lambda x: fg.argmax(fg.tanh(x - fg.mean(x))),
        "top-K through sigmoid": lambda x: fg.topk(fg.sigmoid(90 * x - fg.max(x)), 2),
        "what is taken at such a column": lambda x: fg.take(
            x, fg.argmax(fg.tanh(200 * x - fg.mean(x)))),
        "logarithms of negatives": lambda x: fg.sum(fg.log(x)) + fg.sum(fg.sqrt(x)),
        "towers of exponentials": lambda x: fg.sum(fg.exp(fg.exp(fg.exp(x)))),
        "an odd temperature": lambda x: fg.sum(fg.exp((x - fg.max(x)) / 0.7)),
        "a temperature of nine digits": lambda x: fg.sum(fg.exp((x - fg.max(x)) / 0.123456789)),
        "a computed constant": lambda x: fg.sum(fg.exp((x - fg.max(x)) * (1 / 80**0.5))),
        "a thirteenth and a seventh": lambda x: fg.sum(fg.exp((x - fg.max(x)) / 13 / 0.7)),
        "base 2": lambda x: fg.sum(fg.exp2(x - fg.max(x))),
        "a refused sum in a sweep of its own": lambda x: fg.count(x > fg.mean(x)),
        "everything at once": lambda x: (fg.max(x), fg.argmin(x), fg.mean(x), fg.topk(x, 2)[1]),
        "products": lambda x: fg.prod(x),
        "waves of large arguments": lambda x: fg.sum(fg.sin(x) + fg.cos(x) + fg.erf(x)),
        "powers": lambda x: fg.sum(fg.abs(x) ** 2.5 + fg.maximum(x, 0) ** 0.5),
        "row lengths": lambda x: fg.sum(x - fg.mean(x)) / fg.length(x) + fg.sum(fg.index(x) * x),
    }, cancelling_weights


TEXTS, CANCELLING = _texts()


@pytest.mark.parametrize(("name", "seed"), [(name, at % 2) for at, name in enumerate(TEXTS)])
def test_no_false_alarm(name, seed):
    fn = TEXTS[name]

    def text(x):
        return fn(x)

    fg.check(fg.pipeline(text), seed=seed)


@pytest.mark.long
def test_no_false_alarm_where_weights_cancel():
    for seed in range(2):
        fg.check(fg.pipeline(CANCELLING), seed=seed)


def test_an_uncertain_constant_is_said_to_be_one():
    def sharp(x):
        return fg.sum(fg.exp((x - fg.max(x)) * 0.9123456789123457))

    assert fg.check(fg.pipeline(sharp)).tolerance == 1e-12
    assert fg.check(L["softmax"]).tolerance == 1e-30


# ---- precise arithmetic ----

_SAMPLES = {
    "select": [(True, 1.5, 2.5), (False, 1.5, 2.5)],
    "logic1": [(True,), (False,)],
    "logic2": [(a, b) for a in (True, False) for b in (True, False)],
    1: [(v,) for v in (-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 3.25, INF, -INF, NAN)],
    2: [(a, b) for a in (-2.0, -0.5, 0.0, 0.5, 3.0, INF, NAN) for b in (-3.0, -0.5, 0.0, 2.0, 2.5,
                                                                       INF, NAN)],
}
# Where IEEE arithmetic has a rule of its own that finite trials never reach.
_BEYOND = {"pow", "sin", "cos", "to_int", "mirror"}


@pytest.mark.parametrize("op", OPS.values(), ids=lambda o: o.name)
def test_every_operation_has_a_precise_twin(op):
    twin = precise(50).functions[op.name]
    key = op.rule if op.rule == "select" else f"logic{op.arity}" if op.rule == "logic" else op.arity
    for args in _SAMPLES[key]:
        if op.name in _BEYOND and not all(np.isfinite(a) for a in args):
            continue
        with np.errstate(all="ignore"):
            wanted = float(op.numpy(*(np.float64(a) if op.rule != "logic" else a for a in args)))
            found = float(twin(*args))
        assert found == pytest.approx(wanted, rel=1e-14, nan_ok=True), args


def test_no_operation_is_left_over():
    assert set(precise(50).functions) == set(OPS)


def test_fifty_digits_are_fifty_digits():
    third = evaluate(call("div", Lit(1.0), Lit(3.0)), {}, precise(50))
    assert abs(third * 3 - 1) < 1e-49
    e = evaluate(call("exp", Lit(1.0)), {}, precise(50))
    assert str(e).startswith("2.7182818284590452353602874713526624977572470937")
    tenth = evaluate(Lit(0.1), {}, precise(50))
    assert tenth * 10 == 1


@pytest.mark.parametrize(("value", "wanted", "certain"), [
    (0.7, Fraction(7, 10), True), (1 / 0.7, Fraction(10, 7), True),
    (1e-12, Fraction(1, 10**12), True), (2.0**60, None, False), (2.0**52, Fraction(2**52), True),
    (1e25, Fraction(10**25), True), (3, Fraction(3), True), (True, Fraction(1), True),
    (0.125, Fraction(1, 8), True),
    (100 / 221, Fraction(100, 221), True), (1 / 80**0.5, None, False),
    (0.1 + 0.2, Fraction("0.30000000000000004"), False),
])
def test_literals_are_read_as_they_were_meant(value, wanted, certain):
    found, sure = exact(value)
    assert sure is certain
    assert wanted is None or found == wanted
    assert float(found) == value


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.name)
def test_the_precise_text_is_the_reference(pipeline):
    work = _work(pipeline)
    smallest = 6
    for case in cases(work.graph.read, work.dtypes, 1, np.random.default_rng(1)):
        if case.n_cols < smallest or case.family not in ("normal", "positive"):
            continue
        arithmetic = precise(50)
        row = {n: np.asarray(arithmetic.functions["to_float"](v)) if v.dtype.kind == "f" else v
               for n, v in case.row.items()}
        known = values_of(work.graph, row, case.n_cols, arithmetic)
        found = [known[n] for n in work.graph.outputs]
        wanted = by_text(work.graph, work.dtypes, case.row, case.n_cols)
        for got, want in zip(found, wanted.values(), strict=True):
            spread = np.broadcast_to(np.asarray(got, np.float64), np.shape(want))
            np.testing.assert_allclose(spread, np.asarray(want, float), rtol=1e-9, atol=1e-12)


def test_floats_are_numpys():
    assert FLOATS.functions["exp"] is np.exp
    assert evaluate(call("add", Var("x"), Lit(0.5)), {"x": 1.0}) == 1.5


# ---- orders ----


@pytest.mark.parametrize("alphabet", [(0.0, 1.0, NAN), (-INF, 0.0, 1.0)], ids=["nan", "inf"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_lists_merge_as_their_union(k, alphabet):
    assert exhaust("topk", KBest("list", k, Var("value"), "float"), 5, alphabet) == 7**5


@pytest.mark.parametrize("alphabet", [(0.0, 1.0, NAN), (-INF, 0.0, 1.0)], ids=["nan", "inf"])
@pytest.mark.parametrize("largest", [True, False], ids=["argmax", "argmin"])
def test_leaders_merge_as_their_union(largest, alphabet):
    assert exhaust("arg", Best("best", largest, Var("value"), "float"), 5, alphabet) == 7**5


pair_lists = st.lists(st.sampled_from([0.0, 1.0, 2.0, -INF, INF, NAN]), max_size=6)


@settings(max_examples=200)
@given(pair_lists, pair_lists, st.integers(1, 5))
def test_head_by_head_is_sorting(a, b, k):
    columns = np.random.default_rng(len(a) * 7 + len(b)).permutation(len(a) + len(b)).tolist()
    pairs = list(zip([*a, *b], columns, strict=True))
    first, second = (sorted(p, key=replay.rank)[:k] for p in (pairs[: len(a)], pairs[len(a) :]))
    found = [c for _, c in replay.first_of_both(first, second, k)]
    assert found == [c for _, c in sorted(pairs, key=replay.rank)[:k]]


# ---- several sweeps, and errors ----


def test_laws_hold_in_every_sweep_of_a_refused_text():
    @fg.pipeline
    def two_sweeps(x):
        above = fg.sum(fg.maximum(x - fg.mean(x), 0))
        return above, fg.sum(fg.exp(x - fg.max(x)))

    report = fg.check(two_sweeps)
    assert report.refusals
    one = dict(fg.check(L["softmax"]).laws)
    assert dict(report.laws)["associativity"] > one["associativity"]
    assert "own sweep" in str(report)


def test_long_lists_meet_the_text_too():
    report = fg.check(L["softmax_topk"], k=40)
    assert dict(report.laws)["text"] >= 6


def test_check_wants_a_pipeline():
    with pytest.raises(fg.ArgumentError, match="takes a pipeline"):
        fg.check(len)


def test_an_attempt_needs_no_proof():
    """The trials look at the kernel alone: without obligations they find the same."""
    work = _work(L["entropy"])
    derivation = work.derivation
    assert attempt(work, derivation, lowered(work, derivation), 0).rows >= 30


# ---- right things of every kind ----


@pytest.mark.parametrize("group", right.RIGHT)
def test_right_texts_pass(group, monkeypatch):
    if group != "greatest":  # whose lists and leaders are all that there are
        checks = sys.modules["fusegen.library.check"]
        monkeypatch.setattr(checks, "try_orders", lambda kernel: 0)
    pipeline = right.together(group)
    fg.check(pipeline, dtype={n: right.DTYPES.get(n, "float64") for n in pipeline.signature.arrays})


@pytest.mark.parametrize("name", right.MONOIDS)
def test_right_monoids_pass(name):
    fg.check(right.MONOIDS[name])


def test_there_are_enough_right_things():
    assert sum(map(len, right.RIGHT.values())) + len(right.MONOIDS) >= 60


def test_element_types_may_be_given():
    whole = fg.monoid(0.0, lambda x: x, lambda a, b: a + b, name="total")
    assert fg.check(whole, dtype="int32").laws == fg.check(whole, dtype={"x": "int32"}).laws
    with pytest.raises(fg.ArgumentError, match="no input of this call"):
        fg.check(whole, dtype={"y": "int32"})


def test_whole_numbers_are_clamped_when_cast():
    """The text says so, and every backend does."""
    @fg.pipeline
    def squares(n):
        return fg.cast(fg.sum(n * n), "int8"), fg.cast(fg.min(n) - 5, "uint8")

    n = np.array([[4, 4, 5, 5, 6, 4, 1], [0, 1, 2, 3, 4, 5, -6]], np.int32)
    for run in (squares.reference, squares, squares.compile(n, target="numpy")):
        total, least = run(n)
        np.testing.assert_array_equal(total, [127, 91])
        np.testing.assert_array_equal(least, [0, 0])


# ---- and wrong ones do not ----


def test_an_order_of_conditions_is_tried(monkeypatch):
    """Ties to the highest column."""
    rank = states.rank
    monkeypatch.setattr(states, "rank",
                        lambda pair, **given: rank((pair[0], -pair[1]), **given))
    with pytest.raises(fg.LawViolation):
        fg.check(fg.pipeline(lambda x: fg.argmax(x > 0)))


@pytest.mark.parametrize("wrong", [
    lambda a, b: (b, a), lambda a, b: (a, a), lambda a, b: (a, {n: -v for n, v in b.items()}),
], ids=["reversed", "one side twice", "negated"])
def test_a_monoid_merged_wrongly_is_caught(wrong, monkeypatch):
    """Its laws are proved, and yet the kernel merges something else."""
    line = right.MONOIDS["composition of max-plus lines"]
    right_merge = Operator.merge
    monkeypatch.setattr(states.Folder, "merge", _merging(states.Folder.merge, wrong, right_merge))
    with pytest.raises(fg.LawViolation):
        fg.check(line)


def _merging(merge, wrong, operator_merge):
    def broken(folder, a, b):
        new = merge(folder, a, b)
        for own in folder.monoid.own:
            sides = wrong(a.own[own.name], b.own[own.name])
            new.own[own.name] = operator_merge(own.operator, *sides, folder.value)
        return new

    return broken


@pytest.mark.parametrize("wrong", [
    lambda v, dtype: v, lambda v, dtype: v.astype(dtype),
], ids=["not clamped", "wrapped"])
def test_a_wrong_store_is_caught(wrong, monkeypatch):
    monkeypatch.setattr(specials, "saturate", wrong)
    with pytest.raises(fg.LawViolation, match="differs from the text"):
        fg.check(fg.pipeline(lambda x: fg.cast(100 * fg.max(x), "uint8")))
