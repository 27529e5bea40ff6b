"""The trial is silent about what docs/special_values.md excepts, and about rows at the edge of the
range."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fusegen as fg

pytestmark = pytest.mark.usefixtures("own_cache")


def _weight(x):
    return fg.exp(x - fg.max(x))


def _scaled(x):
    return x / fg.max(fg.abs(x))


def _normalized(x):
    off = x - fg.mean(x)
    return off * fg.rsqrt(fg.mean(off**2) + 1e-12)


EXCEPTED = {
    "selected by other data": lambda x, y: fg.sum(fg.where(y > 0, _weight(x), 0)),
    "left out by other data": lambda x, y: fg.sum(fg.where(y > 0, 0, _weight(x))),
    "selected by itself": lambda x: fg.sum(fg.where(x > 0, _weight(x), 0)),
    "selected by column": lambda x: fg.sum(fg.where(fg.index(x) > 0, _weight(x), 0)),
    "up to a length": lambda x, k: fg.sum(fg.where(fg.index(x) <= k, _weight(x), 0)),
    "selected squares of a scaled row": lambda x, w: fg.sum(fg.where(w > 0, _scaled(x) ** 2, 0)),
    "selected of a scaled row": lambda x, y: fg.sum(fg.where(y > 0, _scaled(x), 0)),
    "above the mean": lambda x: fg.sum(fg.where(x > 0, x - fg.mean(x), 0)),
    "shares": lambda x, w: fg.sum(w / fg.sum(w) * x),
    "shares and their squares": lambda x, w: (
        fg.sum(w / fg.sum(w) * x), fg.sum((w / fg.sum(w)) ** 2)),
    "over another row": lambda x, y, z: fg.sum(x / fg.max(z) * y),
    "both over another row": lambda x, y, z: fg.sum(x / fg.max(z) * (y / fg.max(z))),
    "normalized squares": lambda x: fg.sum(_normalized(x) ** 2),
    "squares by their mean": lambda x: fg.sum((x * fg.rsqrt(fg.mean(x * x) + 1e-12)) ** 2),
    "products by a mean": lambda x, y: fg.sum(x * fg.rsqrt(fg.mean(x * x) + 1e-20) * y),
}


@pytest.mark.parametrize("name", EXCEPTED)
def test_the_trial_is_silent_and_the_sums_share_a_sweep(name):
    text = fg.pipeline(EXCEPTED[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert "is not used: proved" not in str(text.plan())


def test_a_zero_scale_with_nothing_selected_is_0_as_the_text():
    text = fg.pipeline(EXCEPTED["selected of a scaled row"])
    x, y = np.zeros((1, 5), np.float32), -np.ones((1, 5), np.float32)
    assert text(x, y) == text(x + 2, y) == 0
    y[0, 3] = 1
    assert np.isnan(text(x, y)).all()
    assert text(x + 2, y) == 1
