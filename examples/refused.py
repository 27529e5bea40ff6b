"""What cannot be merged keeps a sweep of its own, and says why.

Σ relu(x − mean) switches at a place that moves until the row is finished: no finite set of sums can
follow it. The pipeline still runs; it reads the row twice.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def above_the_mean(x):
    mu = fg.mean(x)
    return fg.sum(fg.maximum(x - mu, 0)), fg.mean((x - mu) ** 2)


for refusal in above_the_mean.derivation().refusals:
    print(refusal)
(refusal,) = above_the_mean.derivation().refusals
assert refusal.kind.value == "moving kink"
assert above_the_mean.plan().sweeps == 2

x = np.random.default_rng(0).standard_normal((50, 4000), dtype=np.float32)
for got, want in zip(above_the_mean(x), above_the_mean.reference(x), strict=True):
    np.testing.assert_allclose(got, want, rtol=2e-6)
