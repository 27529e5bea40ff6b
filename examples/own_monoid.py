"""A reduction of your own, as a monoid: laws proved, or refuted by the smallest counterexample."""

import numpy as np

import fusegen as fg


def join(a, b):
    """Chan, Golub & LeVeque 1983: the moments of two pieces of a row together."""
    n = a["n"] + b["n"]
    delta = b["mean"] - a["mean"]
    share = fg.where(n > 0, b["n"] / n, 0)  # two empty pieces make an empty one
    return {
        "n": n,
        "mean": a["mean"] + delta * share,
        "squares": a["squares"] + b["squares"] + delta**2 * a["n"] * share,
    }


deviation = fg.monoid(
    name="deviation",
    identity={"n": 0, "mean": 0.0, "squares": 0.0},
    lift=lambda x: {"n": 1, "mean": x, "squares": 0.0},
    merge=join,
    project=lambda s: fg.sqrt(s["squares"] / s["n"]),
)

# h = a·h + b along the row. Affine maps compose, and do not commute: the row's order is kept.
recurrence = fg.monoid(
    name="recurrence",
    identity={"slope": 1.0, "offset": 0.0},
    lift=lambda a, b: {"slope": a, "offset": b},
    merge=lambda p, q: {
        "slope": q["slope"] * p["slope"],
        "offset": q["slope"] * p["offset"] + q["offset"],
    },
    project=lambda s: s["offset"],
)

mean_of_means = fg.monoid(
    name="mean_of_means", identity=0.0, lift=lambda x: x, merge=lambda a, b: (a + b) / 2
)


@fg.pipeline
def outliers(x):
    """Standard deviation, and how many of them the greatest element lies above the mean."""
    sigma = fg.reduce(deviation, x)
    return sigma, (fg.max(x) - fg.mean(x)) / sigma


@fg.pipeline
def filtered(a, b):
    return fg.reduce(recurrence, a, b)


rng = np.random.default_rng(0)
x = rng.standard_normal((20, 3000))
print(outliers.explain())
assert outliers.plan().sweeps == 1
sigma, greatest = outliers(x)
np.testing.assert_allclose(sigma, x.std(1), rtol=1e-12)
np.testing.assert_allclose(greatest, (x.max(1) - x.mean(1)) / x.std(1), rtol=1e-12)

a, b = rng.uniform(-1, 1, (20, 3000)), rng.standard_normal((20, 3000))
h = np.zeros(20)
for j in range(3000):
    h = a[:, j] * h + b[:, j]
np.testing.assert_allclose(filtered(a, b), h, rtol=1e-9, atol=1e-12)
assert next(iter(filtered.derivation())).ordered

try:
    fg.check(mean_of_means)
    refuted = ""
except fg.LawViolation as error:
    refuted = str(error)
print(refuted)
assert "(a ⊕ b) ⊕ c = 1/2; a ⊕ (b ⊕ c) = 1/4" in refuted
