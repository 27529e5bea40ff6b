"""fg.stabilize: naive text becomes safe, stays equal, costs no sweep; what cannot is left alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from support.cases import leaves

import fusegen as fg
from fusegen.cli import main
from fusegen.library.stabilize import Stabilized

L = fg.library
NAIVE, SAFE = {}, {}


def naive(fn):
    NAIVE[fn.__name__] = fg.pipeline(fn)
    return NAIVE[fn.__name__]


def safe(fn):
    SAFE[fn.__name__] = fg.pipeline(fn)
    return SAFE[fn.__name__]


# ---- exponential sums ----


@naive
def log_softmax(x):
    return x - fg.log(fg.sum(fg.exp(x)))


@naive
def logsumexp(x):
    return fg.log(fg.sum(fg.exp(x)))


@naive
def log2_mean_exp(x):
    return fg.log2(fg.mean(fg.exp(x)))


@naive
def cross_entropy(x, labels: fg.PerRow):
    return fg.log(fg.sum(fg.exp(x))) - fg.take(x, labels)


@naive
def cross_entropy_of_probabilities(x, labels: fg.PerRow):
    p = fg.exp(x) / fg.sum(fg.exp(x))
    return -fg.log(fg.take(p, labels))


@naive
def soft_mean_and_variance(x):
    e = fg.exp(x)
    total = fg.sum(e)
    return fg.sum(x * e) / total, fg.sum(e * x * x) / total - (fg.sum(e * x) / total) ** 2


@naive
def attention(x, v):
    e = fg.exp(x)
    return fg.sum(e * v) / fg.sum(e)


@naive
def entropy(x):
    p = fg.exp(x) / fg.sum(fg.exp(x))
    return -fg.sum(p * fg.log(p)), -fg.sum(fg.xlogy(p, p))


@naive
def temperature(x, *, t=0.7):
    e = fg.exp(x / t)
    return e / fg.sum(e)


@naive
def temperature_per_row(x, scale: fg.PerRow):
    e = fg.exp(x * scale)
    return e / fg.sum(e)


@naive
def softmin_with_bias(x, bias: fg.PerColumn):
    e = fg.exp(-(x + bias))
    return e / fg.sum(e)


@naive
def naive_topk(x, *, k=3):
    return fg.topk(fg.exp(x) / fg.sum(fg.exp(x)), k)


@naive
def gate(x, *, k=3):
    values, experts = fg.topk(fg.exp(x) / fg.sum(fg.exp(x)), k)
    return values / fg.sum(values), experts


@naive
def masked_logits(x, mask):
    e = fg.exp(fg.where(mask, x, -float("inf")))
    return e / fg.sum(e)


@naive
def masked_weights(x, mask, v):
    e = fg.where(mask, fg.exp(2 * x), 0)
    return fg.sum(e * v) / fg.sum(e)


@naive
def effective_sample_size(x):
    return fg.sum(fg.exp(x)) ** 2 / fg.sum(fg.exp(2 * x))


@naive
def kl_divergence(x, y):
    p, q = fg.exp(x) / fg.sum(fg.exp(x)), fg.exp(y) / fg.sum(fg.exp(y))
    return fg.sum(p * (fg.log(p) - fg.log(q)))


@naive
def likely(x):
    p = fg.exp(x) / fg.sum(fg.exp(x))
    return fg.count(p > 0.05)


@naive
def softmax_by_logsumexp(x):
    return fg.exp(x - fg.log(fg.sum(fg.exp(x))))


@naive
def sum_and_log(x):
    """The sum itself stays as it is; its logarithm does not need it."""
    total = fg.sum(fg.exp(x))
    return {"total": total, "log": fg.log(total)}


# ---- raw moments ----


@naive
def variance(x):
    return fg.mean(x * x) - fg.mean(x) ** 2


@naive
def sample_variance(x):
    n = fg.length(x)
    return (fg.sum(x**2) - fg.sum(x) ** 2 / n) / (n - 1)


@naive
def sample_variance_of_integers_in_floats(x):
    n = fg.length(x)
    return (n * fg.sum(x * x) - fg.sum(x) * fg.sum(x)) / (n * (n - 1))


@naive
def raw_layer_norm(x, *, eps=1e-5):
    mu = fg.mean(x)
    return (x - mu) * fg.rsqrt(eps + fg.mean(x * x) - mu * mu)


@naive
def correlation(x, y):
    c = fg.mean(x * y) - fg.mean(x) * fg.mean(y)
    spread = (fg.mean(x * x) - fg.mean(x) ** 2) * (fg.mean(y * y) - fg.mean(y) ** 2)
    return c / fg.sqrt(spread)


@naive
def weighted_variance(x, w):
    w = fg.abs(w)
    total = fg.sum(w)
    mu = fg.sum(w * x) / total
    return fg.sum(w * x * x) / total - mu * mu


# ---- norms ----


@naive
def norm(x):
    return fg.sqrt(fg.sum(x * x))


@naive
def norm3(x, *, p=3):
    return fg.sum(fg.abs(x) ** p) ** (1 / p)


@naive
def unit_rows(x):
    return x * fg.rsqrt(fg.sum(x**2))


@naive
def root_mean_square_distance(x, y):
    return fg.sqrt(fg.sum((x - y) ** 2) / (fg.length(x) - 1))


# ---- nothing to do, or nothing that can be done ----


@safe
def sum_of_exponentials(x):
    return fg.sum(fg.exp(x))


@safe
def does_not_cancel(x):
    return fg.sum(fg.exp(x)) / fg.sum(fg.exp(2 * x))


@safe
def other_row(x, y):
    return fg.exp(x) / fg.sum(fg.exp(y))


@safe
def by_hand_with_temperature(x, *, t=0.3):
    e = fg.exp((x - fg.max(x)) / t)
    return e / fg.sum(e)


@safe
def by_hand_per_row(x, scale: fg.PerRow):
    e = fg.exp((x - fg.max(x)) / scale)
    return e / fg.sum(e)


@safe
def by_hand_scaled_per_row(x, scale: fg.PerRow):
    e = fg.exp(scale * (x - fg.max(x)))
    return e / fg.sum(e)


@safe
def by_hand_guarded(x, bias: fg.PerColumn):
    z = -(x + bias)
    m = fg.max(z)
    e = fg.exp(z - fg.where(fg.isfinite(m), m, 0))
    return e / fg.sum(e)


@safe
def by_hand_masked(x, mask):
    m = fg.max(fg.where(mask, x, -float("inf")))
    e = fg.where(mask, fg.exp(x - m), 0)
    return e / fg.sum(e)


@safe
def precomputed_logsumexp(x, y, lse: fg.PerRow):
    """The backward pass of attention: what was saved holds the exponential down."""
    return fg.sum(fg.exp(x - lse) * y)


@safe
def by_logsumexp(x):
    return fg.exp(x - fg.logsumexp(x))


@safe
def gaussian_weights(x):
    w = fg.exp(-((x - fg.mean(x)) ** 2))
    return fg.sum(w * x) / fg.sum(w)


@safe
def moments_as_such(x):
    return fg.sum(x * x), fg.sqrt(fg.var(x)), fg.exp(fg.mean(fg.log(fg.abs(x))))


@safe
def means_of_different_things(x, y):
    return fg.mean(x * x) - fg.mean(y) ** 2, fg.sqrt(fg.sum(x * y) + fg.sum(y**2))


OFFSET = ["log_softmax", "logsumexp", "log2_mean_exp", "attention", "temperature", "entropy",
          "softmin_with_bias", "naive_topk", "gate", "masked_logits", "masked_weights",
          "effective_sample_size", "likely", "cross_entropy", "cross_entropy_of_probabilities",
          "temperature_per_row", "softmax_by_logsumexp", "kl_divergence"]
MOMENTS = ["variance", "sample_variance", "sample_variance_of_integers_in_floats",
           "raw_layer_norm", "correlation", "weighted_variance"]
SCALED = ["norm", "norm3", "unit_rows", "root_mean_square_distance"]


def inputs(pipeline, seed, shape=(3, 40), dtype="float64"):
    rng = np.random.default_rng(seed)
    makers = {
        "labels": lambda: rng.integers(0, shape[1], shape[0]),
        "mask": lambda: (rng.random(shape) < 0.6) | (np.arange(shape[1]) == 1),
        "scale": lambda: rng.uniform(0.5, 2, shape[0]).astype(dtype),
        "bias": lambda: rng.normal(0, 1, shape[1]).astype(dtype),
        "w": lambda: rng.uniform(0.5, 2, shape).astype(dtype),
    }
    return [makers.get(n, lambda: rng.normal(0, 2, shape).astype(dtype))()
            for n in pipeline.signature.arrays]


def close(got, want, rtol, atol=0.0):
    for a, b in zip(leaves(got), leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", NAIVE)
def test_rewritten_text_is_proved_and_costs_no_sweep(name):
    stable = fg.stabilize(NAIVE[name])
    assert isinstance(stable, Stabilized)
    assert stable.original is NAIVE[name]
    found = stable.rewriting()
    assert found.obligations
    assert [o.status for o in found.obligations] == ["proved"] * len(found.obligations)
    assert found.mended
    assert stable.plan(form="online").sweeps <= NAIVE[name].plan(form="online").sweeps
    assert stable.derivation().proved
    assert fg.stabilize(stable) is stable, "the safe text needs nothing"


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(NAIVE)), seed=st.integers(0, 2**31), n_cols=st.integers(4, 60))
def test_safe_text_equals_the_naive_one(name, seed, n_cols):
    given_arrays = inputs(NAIVE[name], seed, (3, n_cols))
    want = NAIVE[name].reference(*given_arrays)
    stable = fg.stabilize(NAIVE[name])
    close(stable.reference(*given_arrays), want, 1e-8, 1e-10)


def run(pipeline, arrays):
    """In float32, without a compiler: it is the text that is tested."""
    with np.errstate(all="ignore"):
        return pipeline.compile(*arrays, target="numpy")(*arrays)


def shifted(pipeline, offset, seed=0):
    """float32 rows with a common offset on what is exponentiated."""
    return [a + np.float32(offset) if n in ("x", "y") else a
            for n, a in zip(pipeline.signature.arrays, inputs(pipeline, seed, dtype="float32"),
                            strict=True)]


@pytest.mark.parametrize("name", OFFSET)
def test_large_exponents_are_finite_and_right(name):
    pipeline = NAIVE[name]
    offset = -1000 if name == "softmin_with_bias" else 1000
    arrays = shifted(pipeline, offset)
    stable = fg.stabilize(pipeline)
    got, want = run(stable, arrays), stable.reference(*arrays)
    assert all(np.isfinite(v).all() for v in leaves(want))
    close(got, want, 2e-4, 1e-6)
    pairs = zip(leaves(run(pipeline, arrays)), leaves(want), strict=True)
    assert not all(np.allclose(a, b, rtol=0.1) for a, b in pairs), "the naive text has lost it"


@pytest.mark.long
def test_results_are_those_of_scipy():
    x = inputs(NAIVE["logsumexp"], 3, dtype="float32")[0] + np.float32(500)
    wide = x.astype("float64")
    p, log_p = special.softmax(wide, -1), special.log_softmax(wide, -1)
    labels = np.array([3, 0, 7])
    close(fg.stabilize(NAIVE["logsumexp"])(x), special.logsumexp(wide, -1), 1e-6)
    close(fg.stabilize(NAIVE["log_softmax"])(x), log_p, 1e-6, 1e-6)
    close(fg.stabilize(NAIVE["cross_entropy"])(x, labels), -log_p[range(3), labels], 1e-6)
    close(fg.stabilize(NAIVE["temperature"])(x), special.softmax(wide / 0.7, -1), 2e-4)
    close(fg.stabilize(L.naive_softmax)(x), p, 1e-5)
    close(fg.stabilize(NAIVE["entropy"])(x), (special.entr(p).sum(-1),) * 2, 1e-5)


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_survive_an_offset(name):
    pipeline, stable = NAIVE[name], fg.stabilize(NAIVE[name])
    arrays = shifted(pipeline, 1e4)
    want = stable.reference(*arrays)
    close(run(stable, arrays), want, 2e-3, 2e-3)
    assert not np.allclose(run(pipeline, arrays), want, atol=0.1), "the naive text has lost it"


@pytest.mark.parametrize("scale", [1e-25, 1e25])
@pytest.mark.parametrize("name", SCALED)
def test_norms_survive_a_scale(name, scale):
    pipeline, stable = NAIVE[name], fg.stabilize(NAIVE[name])
    arrays = [a * np.float32(scale) for a in inputs(pipeline, 0, dtype="float32")]
    want = pipeline.reference(*arrays)
    close(run(stable, arrays), want, 2e-6)
    assert not np.allclose(run(pipeline, arrays), want, rtol=0.5, atol=0)


def test_special_rows_follow_the_safe_text():
    x = np.array([[0, 0], [np.inf, 1], [np.nan, 1], [-np.inf, 1], [-np.inf, -np.inf]], "float32")
    stable = {n: fg.stabilize(NAIVE[n]) for n in ("norm", "logsumexp")}
    np.testing.assert_array_equal(stable["norm"](x), L.norm2(x))
    np.testing.assert_array_equal(stable["logsumexp"](x), L.logsumexp(x))
    np.testing.assert_array_equal(stable["logsumexp"](x)[3:], [1, -np.inf])
    np.testing.assert_array_equal(fg.stabilize(L.naive_softmax)(x), L.softmax(x))


@pytest.mark.long
def test_a_large_masked_logit_has_no_weight():
    """The maximum is taken of what the mask leaves: 1000 is not among it."""
    x, mask = np.array([[1000, 1, 2]], "float32"), np.array([[False, True, True]])
    want = special.softmax([1.0, 2.0])
    np.testing.assert_allclose(
        fg.stabilize(NAIVE["masked_logits"])(x, mask), [[0, *want]], rtol=1e-6
    )
    v = np.array([[7, 10, 20]], "float32")
    got = fg.stabilize(NAIVE["masked_weights"])(x, mask, v)
    np.testing.assert_allclose(got, [special.softmax([2.0, 4.0]) @ [10, 20]], rtol=1e-6)


def test_topk_keeps_the_order_where_probabilities_vanish():
    x = np.array([[0, 300, 150, 299, 1]], "float32")
    values, indices = fg.stabilize(NAIVE["naive_topk"])(x)
    np.testing.assert_array_equal(indices, [[1, 3, 2]])
    np.testing.assert_allclose(values[:, :2], [special.softmax([300.0, 299.0])], rtol=1e-6)


def test_the_derivation_is_that_of_the_safe_text():
    @fg.pipeline
    def softmax(x):
        x_max = fg.max(x)
        return fg.exp(x - x_max) / fg.sum(fg.exp(x - x_max))

    def shown(p):
        argument = str(p.derivation()).splitlines()[1:]  # without the pipeline's name
        return [line.split("[")[0] for line in argument]

    assert shown(fg.stabilize(L.naive_softmax)) == shown(softmax)
    stable = fg.stabilize(NAIVE["naive_topk"])
    assert stable.plan(form="online").accesses_per_element == 1, "algorithm 4 of the seed paper"


# ---- left alone ----


@pytest.mark.parametrize("name", SAFE)
def test_nothing_to_do_gives_the_same_object(name):
    assert fg.stabilize(SAFE[name]) is SAFE[name]


@pytest.mark.parametrize("name", [n for n in L.PIPELINES if n != "naive_softmax"])
def test_the_library_is_safe(name):
    pipeline = L.PIPELINES[name]
    assert fg.stabilize(pipeline) is pipeline
    page = pipeline.explain(inputs=tuple(pipeline.signature.optional))
    assert "Numerical safety" not in str(page)


@pytest.mark.parametrize("name", [n for n in SAFE if n not in ("sum_of_exponentials",
                                                              "does_not_cancel", "other_row")])
def test_no_hint_for_safe_text(name):
    assert "Numerical safety" not in str(SAFE[name].explain())


def test_what_cannot_be_helped_is_said():
    page = str(SAFE["sum_of_exponentials"].explain())
    assert "overflows where its value does" in page
    assert "fg.stabilize(" not in page
    both = str(fg.stabilize(NAIVE["sum_and_log"]).explain())
    assert "the greatest exponent is subtracted first" in both
    assert "overflows where its value does" in both
    x = np.full((1, 4), 200, "float32")
    found = fg.stabilize(NAIVE["sum_and_log"])(x)
    assert np.isinf(found["total"][0])
    np.testing.assert_allclose(found["log"], [200 + np.log(4)], rtol=1e-6)


def test_shapes_stay():
    """exp(x)·exp(−x) has no exponent left, but is a row of numbers still."""

    @fg.stabilize
    @fg.pipeline
    def flat(x):
        total = fg.sum(fg.exp(x))
        return fg.exp(x) * fg.exp(-x) / total, fg.log(total)

    x = inputs(NAIVE["logsumexp"], 0)[0]
    assert [v.shape for v in flat.reference(x)] == [(3, 40), (3,)]
    close(flat.reference(x), flat.original.reference(x), 1e-12)


def test_an_unproved_rewriting_is_not_used(monkeypatch):
    """A wrong rule (the pivot forgotten) is refused by the proof, and the text stays."""
    from fusegen.rewrite.stabilize import logarithms

    def wrong(self, node, inside):
        return logarithms.op("log", node.loc, inside.core)

    monkeypatch.setattr(logarithms.Logarithms, "of", wrong)
    found = Stabilized(NAIVE["logsumexp"]).rewriting()
    assert [o.status for o in found.obligations] == ["not proved"]
    assert not found.mended
    page = str(fg.stabilize(NAIVE["logsumexp"]).explain())
    assert "not proved, so it stays as written" in page


# ---- as a pipeline ----


def test_hints_name_the_line_and_the_cost():
    page = str(L.naive_softmax.explain())
    assert "texts.py:" in page
    assert "exceeds 88.7" in page
    assert "fg.stabilize(naive_softmax)" in page
    assert "1 of 1 results proved equal to the text, 2 sweeps, as before" in page
    assert "exceeds 709.8" in str(L.naive_softmax.explain(dtype="float64"))
    assert "deviations from the mean" in str(NAIVE["variance"].explain())
    assert "greatest magnitude" in str(NAIVE["norm"].explain())


@pytest.mark.long
def test_decorator_names_signature_and_composition():
    @fg.stabilize
    @fg.pipeline
    def soft(x, bias: fg.PerColumn = None, *, t=2.0):
        """Softmax, as anyone may write it."""
        z = x if bias is None else x + bias
        weights = fg.exp(z / t)
        return weights / fg.sum(weights)

    @fg.pipeline
    def outer(x):
        return fg.sum(soft(x, t=1.0) * x)

    assert (soft.name, soft.signature.arrays, dict(soft.signature.constants)) == (
        "soft", ("x", "bias"), {"t": 2.0})
    assert soft.__doc__.startswith("Softmax")
    x = np.random.default_rng(0).normal(900, 3, (4, 30)).astype("float32")
    wide = x.astype("float64")
    np.testing.assert_allclose(soft(x), special.softmax(wide / 2, -1), rtol=2e-4)
    np.testing.assert_allclose(soft(x, np.ones(30, "float32")), soft(x), rtol=2e-4)
    np.testing.assert_allclose(outer(x), (special.softmax(wide, -1) * wide).sum(-1), rtol=1e-5)
    assert outer.plan(form="online").sweeps == 1
    source = soft.source(target="sm_90")
    assert "float max_" in source  # of z / t
    assert "test_stabilize.py:" in source
    fg.check(soft)


def test_a_required_constant_is_decided_when_it_is_known():
    @fg.pipeline
    def either(x, *, raw):
        return fg.log(fg.sum(fg.exp(x))) if raw else fg.logsumexp(x)

    stable = fg.stabilize(either)
    x = np.full((2, 3), 300, "float32")
    np.testing.assert_allclose(stable(x, raw=True), stable(x, raw=False))


def test_text_that_needs_what_comes_later_in_the_file():
    @fg.stabilize
    @fg.pipeline
    def early(x):
        return fg.log(total(fg.exp(x)))

    def total(x):
        return fg.sum(x)

    np.testing.assert_allclose(early(np.full((2, 4), 300, "float32")), 300 + np.log(4))


@pytest.mark.long
def test_accepted_cancellation_is_kept():
    @fg.stabilize
    @fg.pipeline(allow_cancellation=True)
    def moments(x):
        e = fg.exp(x)
        mu = fg.sum(e * x) / fg.sum(e)
        return fg.sum(e * (x - mu) ** 2) / fg.sum(e)

    assert moments.allow_cancellation
    assert moments.plan(form="online").sweeps == 1


@pytest.mark.long
def test_source_is_the_same_in_every_process(tmp_path):
    code = (
        "import sys, fusegen as fg\n"
        "@fg.stabilize\n@fg.pipeline\n"
        "def f(x, y, w):\n"
        "    s = fg.sum(w)\n"
        "    a, b = fg.sum(w * x) / s, fg.sum(w * y) / s\n"
        "    p = fg.exp(x + y) / fg.sum(fg.exp(x + y))\n"
        "    return fg.sum(w * x * y) / s - a * b, fg.sum(p * fg.log(p))\n"
        "print(f.source('sm_90'), file=sys.stderr)\n"
        "print('sympy' in sys.modules)\n"
    )
    script = tmp_path / "naive.py"
    script.write_text(code)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    runs = []
    for seed in ("1", "2"):
        env = {"FUSEGEN_CACHE_DIR": str(cache), "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": seed,
               "PYTHONPATH": ":".join(sys.path)}
        runs.append(subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                                   check=True, env=env))
    assert runs[0].stderr == runs[1].stderr
    assert [r.stdout.strip() for r in runs] == ["True", "False"], "proofs are kept on disk"


def test_command_line(capsys):
    assert main(["source", "--stabilize", "naive_softmax"]) == 0
    assert "x_max" in capsys.readouterr().out
    assert main(["explain", "naive_softmax"]) == 0
    assert "fg.stabilize(naive_softmax)" in capsys.readouterr().out


def test_only_pipelines():
    with pytest.raises(fg.ArgumentError, match="takes a pipeline"):
        fg.stabilize(lambda x: x)
