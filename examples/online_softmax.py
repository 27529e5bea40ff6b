"""Algorithm 3: online softmax, one element at a time.

Chunks of one element, merged left to right by the derived operator: the running maximum m, and the
running sum d rescaled by exp(m_old - m_new) whenever m grows. 3 memory accesses per element.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def softmax(x):
    m = fg.max(x)
    return fg.exp(x - m) / fg.sum(fg.exp(x - m))


x = 1e4 + np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
one_by_one = softmax.compile(x, form="online", chunk=1)
print(one_by_one.plan)
assert one_by_one.plan.accesses_per_element == 3
assert one_by_one.derivation.proved
np.testing.assert_allclose(one_by_one(x), softmax.reference(x), rtol=3e-6)
