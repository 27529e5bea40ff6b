"""What the algebra merges, and what it refuses with a reason."""

from __future__ import annotations

import time

import numpy as np
import pytest
from support.algebra_cases import ACCEPTED, REFUSED
from support.cases import covariance, kl_divergence, skewness_sum, weighted_variance
from support.pace import ever_within

import fusegen as fg
from fusegen.algebra import derive, laws, merge
from fusegen.ir.derivation import Commuted, Dependent, RefusalKind
from fusegen.ir.expr import Lit


def _last(fn):
    """The derivation's entry for the last reduction of a function."""
    return fg.pipeline(fn).derivation().entries[-1]


@pytest.mark.parametrize("pipeline", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_the_algebra_accepts_takes_one_sweep_with_every_obligation_proved(pipeline):
    found = pipeline.derivation()
    assert not found.refusals, str(found)
    assert found.proved
    assert pipeline.plan(form="online").sweeps == 1
    for entry in found:
        if isinstance(entry, Dependent):
            assert {"pointwise identity", "read-out", "cocycle", "unit"} <= {
                o.name for o in entry.obligations
            }


@pytest.mark.usefixtures("users_flags")
@pytest.mark.parametrize("pipeline", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted_pipelines_equal_their_text(pipeline):
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((5, 1003)).astype(np.float32) for _ in pipeline.signature.arrays]
    for x in inputs:
        x[:, 400] = x[:, 7] = x.max(axis=1) + 0.5  # ties at the top
    merged, text = pipeline(*inputs, form="online"), pipeline.reference(*inputs)
    for got, want in zip(_as_tuple(merged), _as_tuple(text), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.max(np.abs(want)))


def _as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(
    "pipeline", [kl_divergence, covariance, weighted_variance, skewness_sum], ids=lambda p: p.name
)
def test_two_inputs_and_higher_moments_take_one_sweep(pipeline):
    assert pipeline.plan(form="online").sweeps == 1
    assert not pipeline.derivation().refusals


@pytest.mark.parametrize(("pipeline", "kind"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_keep_a_sweep_and_say_why(pipeline, kind):
    found = pipeline.derivation()
    assert found.refusals, str(found)
    refusal = found.refusals[-1]
    assert refusal.kind is kind, str(refusal)
    assert refusal.loc.file.endswith("algebra_cases.py")
    assert refusal.why
    assert refusal.fix
    assert refusal.witness is not None or kind is RefusalKind.UNPROVED
    assert pipeline.plan(form="online").sweeps > 1


def softmax_of(x):
    return fg.exp(x - fg.max(x)) / fg.sum(fg.exp(x - fg.max(x)))


COMMUTED = {
    "topk of softmax": lambda x: fg.topk(softmax_of(x), 4),
    "topk of log-softmax": lambda x: fg.topk(x - fg.log(fg.sum(fg.exp(x))), 4),
    "max of sigmoid": lambda x: fg.max(fg.sigmoid(x - fg.max(x))),
    "argmax of tanh": lambda x: fg.argmax(fg.tanh(x - fg.mean(x))),
    "argmax of a reversed order": lambda x: fg.argmax(fg.sum(x) - x),
}


@pytest.mark.parametrize("fn", COMMUTED.values(), ids=COMMUTED.keys())
def test_ordered_reductions_commute_with_monotone_maps(fn):
    def text(x):
        return fn(x)

    assert isinstance(_last(text), Commuted)


@pytest.mark.parametrize("name", ACCEPTED)
def test_check_replays_every_accepted_pipeline(name):
    fg.check(ACCEPTED[name])


@pytest.mark.long
def test_the_user_may_accept_cancellation():
    def spread(x):
        return fg.sum((softmax_of(x) - 1.0 / fg.length(x)) ** 2)

    assert fg.pipeline(spread).plan(form="online").sweeps == 2
    brave = fg.pipeline(allow_cancellation=True)(spread)
    assert brave.plan(form="online").sweeps == 1
    x = np.random.default_rng(0).standard_normal((3, 500))
    np.testing.assert_allclose(brave(x), brave.reference(x), rtol=1e-9)


def test_the_mean_cancels_its_own_deviations():
    def variance(x):
        mu = fg.mean(x)
        return fg.mean((x - mu) ** 2)

    entry = _last(variance)
    assert len(entry.known_zero) == 1
    # Chan, Golub & LeVeque: only the squares and the count are left.
    assert len(entry.without_zeros.basis) == 2
    p = fg.pipeline(variance)
    half, single = p.source("cpu", "float16"), p.source("cpu", "float32")
    assert "sum_dev" in single  # it holds the rounding of the mean
    assert "sum_dev" not in half  # which inputs of 16 bits do not have


@pytest.mark.long
def test_weights_and_values_have_pivots_of_their_own():
    entry = ACCEPTED["softmax_weighted_variance"].derivation().entries[-1]
    assert {(s.atom, s.pivot) for s in entry.shifts} == {("x", "max_x"), ("x", "nu")}
    assert len([c for c in entry.readout if c != Lit(0.0)]) == 1
    # A tiny spread far below the maximum, where the text is right and raw moments are not.
    x = np.full((1, 4000), -6.0, np.float32)
    x[0] += np.random.default_rng(1).standard_normal(4000).astype(np.float32) * 1e-3
    p = ACCEPTED["softmax_weighted_variance"]
    np.testing.assert_allclose(p(x, form="online"), p.reference(x), rtol=2e-5)


def test_a_polynomial_with_a_coefficient_that_may_vanish_is_not_strictly_monotone():
    def fn(x, y):
        return fg.argmax(y * (y * fg.max(x)) ** 2)

    assert fg.pipeline(fn).derivation().refusals


def test_ranges_far_from_1_keep_their_scale():
    p = ACCEPTED["squares_between_the_extremes"]
    x = (np.random.default_rng(2).standard_normal((4, 900)) * 1e25).astype(np.float32)
    np.testing.assert_allclose(p(x, form="online"), p.reference(x), rtol=1e-5)


def test_nothing_hangs(monkeypatch):
    def hang(*_args):
        while True:
            pass

    monkeypatch.setattr(merge, "best_candidate", hang)
    monkeypatch.setattr(derive, "REDUCTION_SECONDS", 0.2)

    def text(x):
        return fg.sum(fg.exp(x - fg.max(x)) * 3.25)

    p = fg.pipeline(text)
    (refusal,) = p.derivation().refusals
    assert refusal.kind is RefusalKind.LATE
    assert p.plan(form="online").sweeps == 2
    monkeypatch.undo()
    assert not fg.pipeline(text).derivation().refusals  # nobody kept the unsettled result


def test_an_obligation_that_takes_too_long_is_not_proved(monkeypatch):
    def hang(_expr):
        while True:
            pass

    monkeypatch.setattr(laws, "is_zero", hang)
    monkeypatch.setattr(laws, "OBLIGATION_SECONDS", 0.05)
    start = time.process_time()  # which the endless loop spends
    found = laws.obligation("x", "y", lambda: laws.is_zero(None))
    assert found.status == "not proved"
    assert time.process_time() - start < 1


@pytest.mark.parametrize("pipeline", fg.library.PIPELINES.values(), ids=lambda p: p.name)
def test_library_derivations_are_quick(pipeline):
    work = pipeline.work(inputs=tuple(pipeline.signature.optional))
    assert ever_within(lambda: derive.derive(work.graph).seconds, 0.5)
