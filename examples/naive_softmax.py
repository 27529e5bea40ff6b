"""Algorithm 1 of Milakov & Gimelshein: naive softmax, as anyone may write it.

Two sweeps (sum; divide and write): 3 memory accesses per element. It overflows from x ≈ 88 on in
float32, and fusegen does not hide that: results follow the text.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def naive_softmax(x):
    return fg.exp(x) / fg.sum(fg.exp(x))


plan = naive_softmax.plan()
print(plan)
assert (plan.reads_per_element, plan.writes_per_element) == (2, 1)

x = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
np.testing.assert_allclose(naive_softmax(x), naive_softmax.reference(x), rtol=2e-6)

with np.errstate(all="ignore"):
    assert np.isnan(naive_softmax(x + 100)).all(), "exp overflows, as the text says"
