"""Contrastive losses and kernel sums: pairs that are never stored, and their gradients.

    python examples/contrastive.py

CLIP's loss is the cross entropy of cosines, once over the rows and once over the columns. The sum
of Gaussians is a density; its gradient is a mean shift, which climbs it.
"""

from __future__ import annotations

import numpy as np

import fusegen as fg


def clip(rng: np.random.Generator) -> None:
    """Images and texts are moved together by the gradient of both halves of the loss."""
    truth = rng.standard_normal((600, 32), np.float32)
    images, texts = (truth + 2 * rng.standard_normal(truth.shape, np.float32) for _ in range(2))
    half, options = fg.library.contrastive, {"temperature": 0.1, "normalize": True}
    slope = fg.grad(half, wrt=("x", "y"), **options)
    even = np.full(len(truth), 0.5 / len(truth), np.float32)
    losses = []
    for _ in range(15):
        losses.append(float(np.mean(half(images, texts, **options)
                                    + half(texts, images, **options)) / 2))
        of_images, of_texts = slope(even, images, texts, **options)
        more_texts, more_images = slope(even, texts, images, **options)
        images = images - 300 * (of_images + more_images)
        texts = texts - 300 * (of_texts + more_texts)
    cosines = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, texts)]
    s = cosines[0].astype("f8") @ cosines[1].T / 0.1
    exact = np.mean(np.log(np.exp(s).sum(1) * np.exp(s).sum(0)) / 2 - np.diag(s))
    both = np.mean(half(images, texts, **options) + half(texts, images, **options)) / 2
    np.testing.assert_allclose(both, exact, rtol=1e-4)
    assert losses[-1] < losses[0] / 2
    print(f"contrastive loss of {len(truth)} pairs: {losses[0]:.3f}, then {losses[-1]:.3f}; "
          f"{s.size * 4 / 1e6:.1f} MB of cosines not stored")


def mean_shift(rng: np.random.Generator) -> None:
    """Every point climbs to the top of the density of all: Σ exp(−|x − y|²/2b²) y, divided by
    the same sum without y."""
    tops = np.array([[-3, 0], [3, 1], [0, 4]], np.float32)
    y = (tops[rng.integers(0, 3, 3000)] + 0.6 * rng.standard_normal((3000, 2))).astype("f4")
    x, width = y[::10].copy(), 0.6
    density = fg.library.gaussian_sum(x, y, bandwidth=width)
    exact = np.exp(-((x[:, None] - y.astype("f8")) ** 2).sum(-1) / (2 * width**2)).sum(-1)
    np.testing.assert_allclose(density, exact, rtol=1e-5)
    for _ in range(40):
        total = fg.library.gaussian_sum(x, y, bandwidth=width)
        x = fg.library.gaussian_sum(x, y, y, bandwidth=width) / total[:, None]
    distance, top = fg.library.nearest(x, tops, k=1)
    climbed = (distance[:, 0] < 0.1).mean()
    assert climbed > 0.95
    print(f"mean shift of {len(x)} points over {len(y)}: {climbed:.0%} are at one of "
          f"{len(np.unique(top))} tops; density {density.min():.0f} to {density.max():.0f}")


if __name__ == "__main__":
    clip(np.random.default_rng(0))
    mean_shift(np.random.default_rng(1))
