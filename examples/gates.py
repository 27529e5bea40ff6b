"""The router of DeepSeek-V3: biased scores choose experts in the best groups, unbiased ones weigh.

Written out for 8 groups; fg.library.moe_gate has it with every option.
"""

import numpy as np

import fusegen as fg

INF = float("inf")


@fg.pipeline
def router(x, bias: fg.PerColumn, *, k=8, groups=8, groups_kept=4, scale=2.5):
    scores = fg.sigmoid(x)
    rated = scores + bias
    members = fg.sections(x, groups)
    best = [fg.sum(fg.topk(fg.where(inside, rated, -INF), 2)[0]) for inside in members]
    allowed = x < x  # none yet
    for i, inside in enumerate(members):
        ahead = [best[j] >= best[i] for j in range(i)]  # of equal groups the lower one
        ahead += [best[j] > best[i] for j in range(i + 1, groups)]
        beaten_by = sum(fg.where(a, 1, 0) for a in ahead)
        allowed = allowed | (inside & (beaten_by < groups_kept))
    _, experts = fg.topk(fg.where(allowed, rated, -INF), k, index_dtype="int32")
    weights = fg.take(scores, experts)
    return weights / fg.sum(weights) * scale, experts


rng = np.random.default_rng(0)
x = rng.standard_normal((1000, 256), dtype=np.float32)
bias = rng.normal(0, 0.05, 256).astype(np.float32)
weights, experts = router(x, bias)

same_weights, same_experts = fg.library.moe_gate(
    x, bias, k=8, score="sigmoid", groups=8, groups_kept=4, group_score="top2", scale=2.5
)
np.testing.assert_array_equal(experts, same_experts)
np.testing.assert_allclose(weights, same_weights, rtol=1e-6)
assert all(len(set(row // 32)) <= 4 for row in experts), "of four groups at most"
np.testing.assert_allclose(weights.sum(axis=1), 2.5, rtol=1e-5)
print(router.plan(n_cols=256, inputs=()))
