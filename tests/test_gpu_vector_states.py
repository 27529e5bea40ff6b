"""States of texts over vectors, and sums over the index of what rows make, on a real GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import vector_cases as texts
from support.state_cases import flat, merged_anyhow, same_states
from support.vector_pieces import drawn, normalised, pieces, statistics

import fusegen as fg

pytestmark = pytest.mark.gpu

TEXTS = {"statistics": statistics, "normalised": normalised, "gaussian": texts.gaussian.fn,
         "causal": texts.causal.fn, "nearest": texts.nearest.fn,
         **{name: p.fn for name, p in texts.MASKED.items()}}
SHAPES = [(1, 1), (5, 4000), (700, 900), (64, 30_000)]


def on_gpu(array: Any) -> Any:
    import cupy

    return cupy.asarray(array)


def close(found: Any, want: Any, tolerance: float = 3e-5) -> None:
    for a, b in zip(flat(found), flat(want), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", TEXTS)
def test_any_split_in_any_order(name: str, shape: tuple[int, int]) -> None:
    p, rng, (rows, n) = fg.Pipeline(TEXTS[name]), np.random.default_rng(3), shape
    if name == "nearest" and n < 3:
        pytest.skip("its list has three entries")
    given = {"q": drawn(rows, 24), "k": drawn(n, 24, seed=1), "v": drawn(n, 40, seed=2),
             "lengths": rng.integers(1, n + 1, rows), "b": drawn(n)}
    given |= {"x": given["q"], "y": given["k"]}
    if name == "normalised":
        given["v"] = drawn(n, 300, seed=2)
    if name == "statistics":
        given["v"] = given["k"]
    arrays = {a: given[a] for a in p.signature.arrays}
    cuts = sorted([0, n, *map(int, rng.integers(0, n + 1, 3))])
    ours = pieces(p, {a: on_gpu(x) for a, x in arrays.items()}, cuts)
    theirs = pieces(p, arrays, cuts)
    for a, b in zip(ours, theirs, strict=True):
        same_states(a, b, 1e-4, listed=3e-6)
    want = p.reference(**arrays)
    close(p.finish(merged_anyhow(p, ours, rng)), want)
    close(p(**{a: on_gpu(x) for a, x in arrays.items()}), want)


@pytest.mark.parametrize("rows", [1, 12, 300])
def test_tensors_of_16_bits(rows: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.randn(2, n, 128, device="cuda").bfloat16() for n in (rows, 5000, 5000))
    p = fg.library.attention
    cuts = [0, 1000, 1001, 5000]
    parts = pieces(p, {"q": q, "k": k, "v": v}, cuts, scale=0.1)
    assert all(isinstance(s.array, torch.Tensor) and s.array.is_cuda for s in parts)
    want = torch.nn.functional.scaled_dot_product_attention(
        *(t.double() for t in (q, k, v)), scale=0.1)
    found = p.finish(fg.merge(p, *reversed(parts)))
    torch.testing.assert_close(found.double(), want, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("rows", [3, 500])
@pytest.mark.parametrize("width", [64, 300])
def test_lengths_of_what_rows_make(rows: int, width: int) -> None:
    """By every engine."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    @fg.pipeline
    def normed(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
        s = fg.dot(q, k)
        p = fg.exp(s - fg.max(s))
        o = fg.sum(p * v) / fg.sum(p)
        return o / fg.sqrt(fg.inner(o * o))

    for dtype, tolerance in ((torch.bfloat16, 2e-2), (torch.float32, 1e-4)):
        q, k, v = (torch.randn(n, w, device="cuda", dtype=dtype) / 4
                   for n, w in ((rows, 64), (3000, 64), (3000, width)))
        o = torch.softmax(q.double() @ k.double().T, -1) @ v.double()
        want = o / o.norm(dim=-1, keepdim=True)
        torch.testing.assert_close(normed(q, k, v).double(), want, rtol=tolerance, atol=tolerance)


def test_bytes_of_states_that_a_stream_still_makes() -> None:
    """What is read on the host is done, on whatever stream it is made; so are references."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    p, drawn = fg.library.attention, torch.Generator("cuda").manual_seed(0)
    q, k, v = (torch.randn(300, 64, generator=drawn, device="cuda") for _ in range(3))
    want = p(q, k, v, scale=0.125)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        late = torch.zeros_like(q)
        busy = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            busy = busy @ busy
        late.copy_(q)
        data = p.states(late, k, v, at=0, scale=0.125).to_bytes()
        found = p.finish(fg.States.from_bytes(p, data, like=q))
        torch.testing.assert_close(found, want)
