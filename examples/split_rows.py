"""Split rows: a few very long rows, shared between threads (CPU) or blocks (GPU).

Every piece folds its own state; the states meet in a fixed order, so results do not vary from run
to run. On a GPU the pieces' states go through a workspace, and the last block of a row to finish
merges them, in the same launch.
"""

import numpy as np

import fusegen as fg


@fg.pipeline
def var_mean(x):
    mu = fg.mean(x)
    return fg.mean((x - mu) ** 2), mu


x = 1e3 + np.random.default_rng(0).standard_normal((2, 2_000_000), dtype=np.float32)
variance, mean = var_mean(x)
np.testing.assert_allclose(variance, x.astype(np.float64).var(axis=1), rtol=1e-5)
np.testing.assert_allclose(mean, x.astype(np.float64).mean(axis=1), rtol=1e-6)
again, _ = var_mean(x)
np.testing.assert_array_equal(variance, again)

source = var_mean.source(target="sm_90", n_rows=2, n_cols=2_000_000)
assert "last_of_row" in source  # the last of a row's blocks merges what they all found
