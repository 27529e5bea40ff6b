"""Gradients, derived the same way: row sums and elementwise text, merged into one sweep of sums.

fg.grad(p) walks the text of p backwards. The maximum of softmax and logsumexp only keeps exp from
overflowing; that it has no gradient is proved, not assumed.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def focal_loss(x, labels: fg.PerRow, *, gamma=2.0):
    """−(1 − p)^gamma · log p of the labelled class; Lin et al. 2017."""
    log_p = fg.take(fg.library.log_softmax(x), labels)
    return -((1 - fg.exp(log_p)) ** gamma) * log_p


rng = np.random.default_rng(0)
x, grad = rng.standard_normal((60, 400)), rng.standard_normal((60, 400))

# softmax: y·(g − Σ g·y), each element read twice
backward = fg.grad(fg.library.softmax)
print(backward.explain())
print(*backward.proofs(), sep="\n")
y = fg.library.softmax(x)
np.testing.assert_allclose(
    backward(grad, x), y * (grad - np.sum(grad * y, axis=1, keepdims=True)), rtol=1e-9, atol=1e-15
)
assert backward.plan(form="online").sweeps == 2
assert [proof.status for proof in backward.proofs()] == ["proved"]

# your own: a step of gradient descent lowers the loss
labels = rng.integers(0, 400, 60)
slope = fg.grad(focal_loss)(np.ones(60), x, labels, gamma=1.5)
before, after = (focal_loss(v, labels, gamma=1.5).sum() for v in (x, x - 0.01 * slope))
np.testing.assert_allclose((before - after) / 0.01, np.sum(slope**2), rtol=0.02)

# a weight's gradient is a sum over rows: row statistics first, then a pipeline along the other axis
weight, bias = rng.standard_normal(400), rng.standard_normal(400)
backward = fg.grad(fg.library.layer_norm, wrt="weight")
print(backward.rows, backward.columns, sep="\n")
normal = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
np.testing.assert_allclose(backward(grad, x, weight, bias), (grad * normal).sum(axis=0), rtol=1e-9)
