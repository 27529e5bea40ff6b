"""The paper's own case: softmax, then top-K, of every row.

Unfused it costs 5 memory accesses per element: 3 reads and a write for softmax, a read for top-K.
fusegen proves that softmax keeps the order of x, so top-K may be taken of x itself, in the very
sweep that finds the maximum and the sum: safe fused 2 accesses, online fused 1.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def softmax_topk(x, *, k=5):
    m = fg.max(x)
    y = fg.exp(x - m) / fg.sum(fg.exp(x - m))
    return fg.topk(y, k)


x = 3 * np.random.default_rng(0).standard_normal((200, 25_000), dtype=np.float32)
want_values, want_indices = softmax_topk.reference(x)
for form, accesses in (("unfused", 5), ("safe", 2), ("online", 1)):
    plan = softmax_topk.plan(form=form)
    print(plan)
    assert plan.accesses_per_element == accesses
    values, indices = softmax_topk(x, form=form)
    np.testing.assert_allclose(values, want_values, rtol=2e-6)
    np.testing.assert_array_equal(indices, want_indices)
