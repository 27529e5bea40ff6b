"""tune=True and deterministic=True on a real GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegen as fg

pytestmark = pytest.mark.gpu

NAMES = ("softmax", "logsumexp", "layer_norm", "var_mean")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path / "cache"))


def made(n_rows: int, n_cols: int, dtype: str = "float32") -> Any:
    import cupy

    return cupy.random.default_rng(0).standard_normal((n_rows, n_cols)).astype(dtype)


@pytest.mark.parametrize(("n_rows", "n_cols"), [(4, 129_024), (4000, 1000), (2000, 25_000),
                                                (64, 1 << 20), (500, 25_001)])
@pytest.mark.parametrize("name", NAMES)
def test_every_contestant_agrees_and_the_fastest_is_used(
    name: str, n_rows: int, n_cols: int
) -> None:
    p, x = fg.Pipeline(getattr(fg.library, name).fn), made(n_rows, n_cols)
    compiled = p.compile(x, tune=True)
    found = compiled.tuned
    assert found is not None
    assert [t.note for t in found.timings if t.seconds is None] == []
    assert found.schedule == compiled.schedule
    limit = x.nbytes / 2e13  # seconds: no memory is that fast
    assert all(limit < t.seconds < 1.0 for t in found.timings)
    got, want = compiled(x), p.reference(x.get())
    for g, w in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
        np.testing.assert_allclose(g.get(), w, rtol=2e-5, atol=2e-6)
    again = fg.Pipeline(getattr(fg.library, name).fn).compile(x, tune=True)
    assert again.tuned == found
    assert "tuned: measured on" in str(p.explain(
        target=compiled.schedule.target.name, n_rows=n_rows, n_cols=n_cols,
    )) or n_cols % 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n_cols", [96, 1024, 25_000, 129_024])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_alone_and_among_others(name: str, n_cols: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    p = getattr(fg.library, name)
    x = torch.randn(200, n_cols, device="cuda").to(getattr(torch, dtype))
    every = p(x, deterministic=True)
    for start, stop in ((0, 1), (199, 200), (0, 3), (50, 117)):
        part = p(x[start:stop].clone(), deterministic=True)
        for e, g in zip(*(a if isinstance(a, tuple) else (a,) for a in (every, part)), strict=True):
            assert torch.equal(g, e[start:stop])
