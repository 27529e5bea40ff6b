"""Naive text made safe: algorithm 1 of Milakov & Gimelshein becomes algorithm 3.

exp(x) / Σ exp(x) overflows float32 from x ≈ 88, E[x²] − E[x]² cancels, Σ x² overflows from 1e19.
`fg.stabilize` rewrites such text, proves it equal, and the safe text fuses into as few sweeps.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def naive_softmax_topk(x, *, k=5):
    weights = fg.exp(x)
    return fg.topk(weights / fg.sum(weights), k)


@fg.stabilize
@fg.pipeline
def statistics(x):
    """Variance and norm as a first course writes them."""
    return fg.mean(x**2) - fg.mean(x) ** 2, fg.sqrt(fg.sum(x**2))


print(naive_softmax_topk.explain())
assert "fg.stabilize(naive_softmax_topk)" in str(naive_softmax_topk.explain())

softmax_topk = fg.stabilize(naive_softmax_topk)
print(softmax_topk.explain())
assert softmax_topk.plan().accesses_per_element == 1, "no price for safety"

x = 1e3 + np.random.default_rng(0).standard_normal((64, 5000), dtype=np.float32)
values, indices = softmax_topk(x)
safe_values, safe_indices = fg.library.softmax_topk(x)
np.testing.assert_array_equal(indices, safe_indices)
np.testing.assert_allclose(values, safe_values, rtol=2e-6)
with np.errstate(all="ignore"):
    assert np.isnan(naive_softmax_topk(x)[0]).all(), "the naive text gives inf / inf"

variance, _ = statistics(x)
np.testing.assert_allclose(variance, x.astype(np.float64).var(axis=1), rtol=1e-4)
_, norm = statistics(x * np.float32(1e25))
np.testing.assert_allclose(norm, 1e25 * np.linalg.norm(x.astype(np.float64), axis=1), rtol=1e-5)

# Safe text needs nothing, and comes back as the same object.
assert fg.stabilize(softmax_topk) is softmax_topk
