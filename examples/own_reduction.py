"""Your own pipelines: inputs per column and per row, several outputs, derived in one sweep."""

import numpy as np

import fusegen as fg


@fg.pipeline
def weighted_moments(x, w):
    """Mean and variance of x under weights w ≥ 0 of the same shape."""
    w = fg.abs(w)  # says that the mean stays among the x: only then may it be a moving pivot
    total = fg.sum(w)
    mu = fg.sum(w * x) / total
    return {"mean": mu, "variance": fg.sum(w * (x - mu) ** 2) / total}


@fg.pipeline
def label_statistics(logits, labels: fg.PerRow, prior: fg.PerColumn):
    """Loss of each row's label, and whether it was the best guess."""
    z = logits + prior
    loss = fg.logsumexp(z) - fg.take(z, labels)
    return loss, fg.argmax(z) == labels


rng = np.random.default_rng(0)
x, w = rng.standard_normal((40, 3000)), rng.random((40, 3000))
print(weighted_moments.explain())
assert weighted_moments.plan().sweeps == 1
found = weighted_moments(x, w)
mean = np.average(x, axis=1, weights=w)
np.testing.assert_allclose(found["mean"], mean, rtol=1e-9, atol=1e-12)
np.testing.assert_allclose(
    found["variance"], np.average((x - mean[:, None]) ** 2, axis=1, weights=w), rtol=1e-9
)

logits = rng.standard_normal((40, 3000)).astype(np.float32)
labels, prior = rng.integers(0, 3000, 40), rng.standard_normal(3000).astype(np.float32)
loss, hit = label_statistics(logits, labels, prior)
want_loss, want_hit = label_statistics.reference(logits, labels, prior)
np.testing.assert_allclose(loss, want_loss, rtol=2e-6)
np.testing.assert_array_equal(hit, want_hit)
