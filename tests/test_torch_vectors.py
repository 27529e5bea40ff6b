"""Calls over vectors with tensors that require gradients, beside torch's own operations."""

from __future__ import annotations

import math
from typing import Any

import pytest

import fusegen as fg

library = fg.library
FLOAT64 = "float64"


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


def drawn(torch: Any, *shape: int, dtype: str = FLOAT64, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return made.to(getattr(torch, dtype)).requires_grad_()


def same_gradients(torch: Any, found: Any, want: Any, inputs: Any, **tolerance: Any) -> None:
    torch.testing.assert_close(found, want, **tolerance)
    cotangents = [drawn(torch, *o.shape, seed=7).detach() for o in found]
    mine = torch.autograd.grad(found, inputs, cotangents)
    theirs = torch.autograd.grad(want, inputs, cotangents)
    torch.testing.assert_close(mine, theirs, **tolerance)


@pytest.mark.long
def test_attention(torch: Any) -> None:
    """Grouped queries, views, a causal mask, and a log-sum-exp beside the result."""
    heads, k, v = drawn(torch, 2, 8, 33, 6), drawn(torch, 2, 2, 1, 33, 6), drawn(torch, 33, 5)
    q = heads.view(2, 2, 4, 33, 6)
    found = library.attention(q, k, v, scale=0.4, causal=True, with_lse=True)
    s = (0.4 * q @ k.mT).masked_fill(~torch.ones(33, 33, dtype=torch.bool).tril(), -math.inf)
    same_gradients(torch, found, (torch.softmax(s, -1) @ v, s.logsumexp(-1)), (heads, k, v))


def test_scaled_dot_product_attention(torch: Any) -> None:
    q, k, v = (drawn(torch, 2, 3, n, 8, dtype="float32", seed=n) for n in (20, 300, 300))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    same_gradients(torch, (library.attention(q, k, v, scale=8**-0.5),), (want,), (q, k, v),
                   rtol=1e-4, atol=1e-5)


def test_linear_cross_entropy_in_bfloat16(torch: Any) -> None:
    h, w = (drawn(torch, n, 16, dtype="bfloat16", seed=n) for n in (40, 99))
    labels = torch.arange(40) % 7
    library.linear_cross_entropy(h, w, labels).float().mean().backward()
    found = h.grad, w.grad
    h.grad = w.grad = None
    torch.nn.functional.cross_entropy(h.float() @ w.float().T, labels).backward()
    assert found[1].dtype == torch.bfloat16
    torch.testing.assert_close(found, (h.grad, w.grad), rtol=2e-2, atol=1e-3)


@pytest.mark.long
def test_some_inputs_require_a_gradient(torch: Any) -> None:
    q, k, v = drawn(torch, 9, 4), drawn(torch, 20, 4).detach(), drawn(torch, 20, 3)
    found = library.attention(q, k, v, scale=1.0, keepdims=True)
    assert found.shape == (9, 1, 3)
    same_gradients(torch, (found[:, 0],), (torch.softmax(q @ k.T, -1) @ v,), (q, v))
    with torch.no_grad():
        assert not library.attention(q, k, v, scale=1.0).requires_grad
    assert not library.kmeans_assign(q, k).requires_grad


def test_gradcheck(torch: Any) -> None:
    def density(x: Any, y: Any) -> Any:
        return library.gaussian_sum(x, y, bandwidth=0.7)

    assert torch.autograd.gradcheck(density, (drawn(torch, 3, 2), drawn(torch, 4, 2)))


@fg.pipeline
def masked(
    q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, at: fg.PerRow, times: fg.PerColumn
):
    s = fg.where(times <= at, fg.dot(q, k), -math.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@pytest.mark.long
@pytest.mark.parametrize("mask", ["window", "lengths", "positions", "numbers of columns"])
def test_second_derivatives_behind_a_mask(torch: Any, mask: str) -> None:
    """Rows whose masked sum is 0 are told by a condition on each number of a vector."""
    n, m = 6, 9
    q, k, v, sinks = (drawn(torch, *shape, seed=9) for shape in ((n, 3), (m, 3), (m, 2), (n,)))
    row, column = torch.arange(n)[:, None], torch.arange(m)
    shuffled, times = torch.tensor([3, 0, 8, 1, 5, 2]), torch.arange(m).flip(0) - 1
    s, inputs, beside = q @ k.mT, (q, k, v), None
    match mask:
        case "window":
            found = library.attention(q, k, v, scale=1.0, causal=True, window=3)
            seen = (column <= row) & (column > row - 3)
        case "lengths":
            found = library.attention(q, k, v, lengths=shuffled + 1, scale=1.0)
            seen = column <= shuffled[:, None]
        case "positions":
            found = library.attention(
                q, k, v, positions=shuffled, sinks=sinks, scale=1.0, causal=True)
            seen, inputs, beside = column <= shuffled[:, None], (*inputs, sinks), sinks[:, None]
        case _:
            found, seen = masked(q, k, v, shuffled, times), times <= shuffled[:, None]
    s = s.masked_fill(~seen, -math.inf)
    shares = torch.softmax(s if beside is None else torch.cat([s, beside], -1), -1)[:, :m]
    second = [_twice(torch, o, inputs) for o in (found, shares @ v)]
    torch.testing.assert_close(*second)
    assert all(one.abs().max() > 1e-3 for one in second[0])


def _twice(torch: Any, output: Any, inputs: Any) -> Any:
    """The gradient of the squares of the gradient."""
    first = torch.autograd.grad(output.square().sum(), inputs, create_graph=True)
    return torch.autograd.grad(sum(one.square().sum() for one in first), inputs)


@pytest.mark.long
def test_lists(torch: Any) -> None:
    x, y = drawn(torch, 9, 3), drawn(torch, 2, 20, 3)
    values, columns = library.nearest(x, y, k=4)
    want = ((x[:, None] - y[:, None]) ** 2).sum(-1).topk(4, largest=False)
    assert (columns == want.indices).all()
    same_gradients(torch, (values,), (want.values,), (x, y))
    values, columns = library.head_topk(x, y[0], k=3, temperature=0.5)
    want = torch.softmax(x @ y[0].T / 0.5, -1).topk(3)
    assert (columns == want.indices).all()
    same_gradients(torch, (values,), (want.values,), (x, y))


def test_under_autocast(torch: Any) -> None:
    q, k, v = (drawn(torch, 9, 4, dtype="float32", seed=n) for n in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = library.attention(q, k, v, scale=1.0)
    assert found.dtype == torch.float32
    same_gradients(torch, (found,), (torch.softmax(q @ k.T, -1) @ v,), (q, k, v))


def test_what_is_refused(torch: Any) -> None:
    x, y = drawn(torch, 9, 3), drawn(torch, 20, 3)
    with pytest.raises(fg.ArgumentError, match="out= has no gradient"):
        library.gaussian_sum(x, y, out=torch.empty(9, dtype=torch.float64))
    with pytest.raises(fg.TraceError, match=r"fg\.prod has no gradient"):
        fg.pipeline(_product)(x, y)
    with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
        torch.func.jvp(library.gaussian_sum, (x, y), (x, y))


def _product(x: fg.RowVector, y: fg.ColumnVector):
    return fg.prod(fg.dot(x, y))
