"""Block online: the safe text inside a chunk, the derived operator between chunks.

One maximum and one rescale per chunk instead of one per element. It is the default form on the CPU
(chunks that fit the vector registers) and on the GPU (a thread's share of a tile).
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def entropy(x):
    m = fg.max(x)
    p = fg.exp(x - m) / fg.sum(fg.exp(x - m))
    return -fg.sum(fg.xlogy(p, p))


plan = entropy.plan()
print(plan)
assert plan.sweeps == 1, "a chain of three reductions, one read"
assert plan.reads_per_element == 1

x = 3 * np.random.default_rng(0).standard_normal((64, 5000), dtype=np.float32)
np.testing.assert_allclose(entropy(x), entropy.reference(x), rtol=2e-6)
for chunk, rtol in ((1, 2e-5), (64, 2e-6), (256, 2e-6)):  # one by one, rounding adds up
    np.testing.assert_allclose(entropy.compile(x, chunk=chunk)(x), entropy.reference(x), rtol=rtol)
