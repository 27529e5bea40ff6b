"""Calls over vectors that torch and JAX see, on a real GPU: graphs, transforms, derivatives."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import vector_peers as vp

import fusegen as fg

pytestmark = pytest.mark.gpu
library = fg.library


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    torch.compiler.reset()
    return torch


def given(torch: Any, name: str, dtype: str, *shape: int) -> list[Any]:
    return [torch.from_numpy(a).cuda() for a in vp.arguments(name, *shape, dtype=dtype)]


def total(found: Any) -> Any:
    every = found if isinstance(found, tuple) else (found,)
    return sum((r * r.cos()).sum() for r in every if r.is_floating_point())


def close(found: Any, want: Any) -> None:
    """Up to a part of the greatest: a number near 0 has the rounding of the others."""
    pairs = zip(found, want, strict=True) if isinstance(found, tuple) else [(found, want)]
    for f, w in pairs:
        assert f.shape == w.shape
        apart = (f.double() - w.double()).abs().max()
        assert apart <= 1e-3 * (w.double().abs().max() + 0.1)


@pytest.mark.parametrize("name", vp.NAMES)
def test_graphs_and_transforms(torch: Any, name: str) -> None:
    """In float32, beside torch's own operations in float64."""
    arrays = given(torch, name, "float32", 70, 333)
    ours = partial(library.OVER_VECTORS[name], **vp.CONSTANTS[name])
    peers = vp.Peers(torch, torch.topk)
    wide = [a.double() if a.is_floating_point() else a for a in arrays]
    wrt = [i for i, a in enumerate(arrays) if a.is_floating_point()]
    for compiled in (torch.compile(ours, fullgraph=True, backend="aot_eager"), ours):
        for some in (arrays, wide):
            for i in wrt:
                some[i] = some[i].detach().requires_grad_(name in vp.DIFFERENTIABLE)
        found, want = compiled(*arrays), peers.call(name, wide)
        close(found, want)
        if name in vp.DIFFERENTIABLE:
            mine, theirs = (torch.autograd.grad(total(o), [a[i] for i in wrt])
                            for o, a in ((found, arrays), (want, wide)))
            close(mine, theirs)
    batch = torch.stack([arrays[0].detach(), arrays[0].detach() * 0.5])
    rest = [a.detach() for a in arrays[1:]]
    found = torch.func.vmap(lambda x: ours(x, *rest))(batch)
    want = [ours(x, *rest) for x in batch]
    close(found, tuple(torch.stack(w) for w in zip(*want, strict=True))
          if isinstance(found, tuple) else torch.stack(want))
    if name in vp.DIFFERENTIABLE:
        slopes = torch.func.vmap(torch.func.grad(lambda x: total(ours(x, *rest))))(batch)
        close(slopes[0], mine[0])


def test_attention_of_sixteen_bits_in_a_graph(torch: Any) -> None:
    """A model's: what the forward pass leaves serves the backward pass, on tensor cores."""
    chance = torch.Generator("cuda").manual_seed(0)
    q, k, v = (torch.randn(2, 4, 512, 64, generator=chance, device="cuda", dtype=torch.bfloat16,
                           requires_grad=True) for _ in range(3))
    call = partial(library.attention, scale=0.125, causal=True)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    want = sdpa(*(a.double() for a in (q, k, v)), is_causal=True)
    out = torch.randn(want.shape, generator=chance, device="cuda", dtype=torch.bfloat16)
    slopes = torch.autograd.grad(want, (q, k, v), out.double())
    for function in (torch.compile(call, fullgraph=True, backend="aot_eager"), call):
        found = function(q, k, v)
        torch.testing.assert_close(found.double(), want, rtol=2e-2, atol=2e-2)
        for f, w in zip(torch.autograd.grad(found, (q, k, v), out), slopes, strict=True):
            torch.testing.assert_close(f, w, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jax(dtype: str) -> None:
    """Tensor maps are made by the handler, for the addresses of each run."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from support.jax_cases import close as same  # before JAX takes a GPU's memory for itself

    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")

    jnp = jax.numpy
    q, k, v = (jax.random.normal(jax.random.key(i), (2, 300, 64)).astype(dtype) for i in range(3))
    call = partial(library.attention, scale=0.125, causal=True)

    def peer(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (a.astype(jnp.float32) for a in (q, k, v))
        with jax.default_matmul_precision("highest"):  # on GPUs it is tfloat32 else
            s = jnp.where(jnp.tri(300, dtype=bool), 0.125 * q @ k.mT, -jnp.inf)
            return jax.nn.softmax(s) @ v

    tolerance = 1e-4 if dtype == "float32" else 3e-2
    for _ in range(2):
        same(jax.jit(call)(q, k, v), peer(q, k, v), tolerance, tolerance)
    mine, theirs = (jax.jit(jax.grad(lambda *a, f=f: (f(*a).astype("float32") ** 2).sum(),
                                     (0, 1, 2)))(q, k, v) for f in (call, peer))
    same(mine, theirs, 20 * tolerance, 20 * tolerance)


def test_a_graph_copies_what_kernels_cannot_read(torch: Any) -> None:
    """Into memory of the graph's: arrays that are transposed, and masks that all heads share."""
    drawn = torch.Generator("cuda").manual_seed(0)

    def vectors(*shape: int) -> Any:
        return torch.randn(*shape, generator=drawn, device="cuda").bfloat16()

    q, k, v = vectors(2, 64, 100), vectors(2, 64, 300), vectors(2, 64, 300)
    mask = torch.rand(100, 300, generator=drawn, device="cuda") < 0.5

    def call() -> Any:
        return library.attention(q.mT, k.mT, v.mT, mask=mask, scale=0.125)

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    for _ in range(2):
        for x in (q, k, v):
            x.copy_(vectors(*x.shape))
        graph.replay()
        assert torch.equal(found, call())
        want = torch.nn.functional.scaled_dot_product_attention(
            *(x.mT.double() for x in (q, k, v)), attn_mask=mask, scale=0.125)
        torch.testing.assert_close(found.double(), want, rtol=2e-2, atol=2e-2)
