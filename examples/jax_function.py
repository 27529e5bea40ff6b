"""A JAX function with pipelines in it: jitted, differentiated, mapped over a batch.

A linear classifier is trained with label smoothing and a z-loss, whose sums are one read of the
logits; the loss curve is that of the same text in jnp. Needs JAX: pip install "fusegen[jax]".
"""

import jax
import jax.numpy as jnp
import numpy as np

import fusegen as fg


@fg.pipeline
def smooth_loss(logits, label: fg.PerRow, *, smoothing=0.1, z=1e-3):
    """Cross entropy with smoothed labels, and a penalty of large sums."""
    m = fg.max(logits)
    lse = m + fg.log(fg.sum(fg.exp(logits - m)))
    truth = (1 - smoothing) * fg.take(logits, label) + smoothing * fg.mean(logits)
    return lse - truth + z * lse**2


def peer(logits, label, smoothing=0.1, z=1e-3):
    lse = jax.nn.logsumexp(logits, axis=-1)
    own = jnp.take_along_axis(logits, label[:, None], axis=-1)[:, 0]
    return lse - (1 - smoothing) * own - smoothing * logits.mean(-1) + z * lse**2


def trained(loss, x, label, steps=20):
    """The losses of so many steps of gradient descent."""

    @jax.jit
    def step(weight):
        value, gradient = jax.value_and_grad(
            lambda w: loss(fg.library.rms_norm(x) @ w, label).mean())(weight)
        return weight - 0.5 * gradient, value

    weight, losses = jnp.zeros((x.shape[1], 10)), []
    for _ in range(steps):
        weight, value = step(weight)
        losses.append(float(value))
    return losses


if __name__ == "__main__":
    source = np.random.default_rng(0)
    x = jnp.asarray(source.standard_normal((64, 32), dtype=np.float32))
    label = jnp.asarray(source.integers(0, 10, 64, dtype=np.int32))
    ours, theirs = trained(smooth_loss, x, label), trained(peer, x, label)
    print(f"loss {ours[0]:.3f} → {ours[-1]:.3f}")
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert ours[-1] < ours[0]

    # One more axis of rows, per-row gradients, second derivatives.
    batch, top = jnp.stack([x, 2 * x]), fg.jax.op(fg.library.topk, k=3)
    values, columns = jax.jit(jax.vmap(top))(batch)
    assert jnp.array_equal(values, jnp.take_along_axis(batch, columns, -1))
    hessian = jax.jit(jax.hessian(fg.library.logsumexp))(x[0])
    np.testing.assert_allclose(hessian, jax.hessian(jax.nn.logsumexp)(x[0]), rtol=1e-4, atol=1e-6)
