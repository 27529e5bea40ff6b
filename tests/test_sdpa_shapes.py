"""The shapes, types, strides and masks that torch tests its own scaled_dot_product_attention with,
against float64: a sample of them on CPUs and on emulated GPUs, all of them on a GPU."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.emulated import emulated
from support.state_cases import host
from support.tiles import emulate

import fusegen as fg

attention = fg.library.attention

BATCHES, HEADS = (1, 8), 4
ROWS = (4, 8, 64, 143, 256, 312, 512, 1024, 2048)
COLUMNS = (4, 8, 64, 65, 128, 256, 408, 512, 587, 1024, 2048)
LENGTHS = (8, 16, 21, 32, 64, 72, 96, 128, 160, 192, 203, 256)
TYPES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16),
         "float32": np.dtype("f4")}
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-6}
"""Of numbers below 1: a rounding of the result, and of the weights where those have 16 bits."""


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """As torch.rand: from 0 to 1."""
    return np.random.default_rng([seed, *shape]).random(shape, np.float32).astype(TYPES[dtype])


def given(
    batch: int, rows: int, columns: int, d: int, dtype: str, heads: int = HEADS,
    width: int | None = None,
) -> tuple[Any, ...]:
    return (drawn((batch, heads, rows, d), dtype, 0), drawn((batch, heads, columns, d), dtype, 1),
            drawn((batch, heads, columns, width or d), dtype, 2))


def exact(
    q: Any, k: Any, v: Any, scale: float, *, causal: bool = False, bias: Any = None
) -> Any:
    q, k, v = (a.astype("f8") for a in (q, k, v))
    s = scale * q @ k.swapaxes(-1, -2)
    if bias is not None:
        s = s + bias.astype("f8")
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


def close(found: Any, want: Any, dtype: str) -> None:
    found = host(found).astype("f8")
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


SAMPLE = [  # a length of vectors each; types and masks in turn
    (d, [*TYPES][i % 3], i % 2 == 1, ROWS[(3 * i) % 5], COLUMNS[(5 * i + 1) % 7])
    for i, d in enumerate(LENGTHS)
]


@pytest.mark.parametrize(("d", "dtype", "causal", "rows", "columns"), SAMPLE)
def test_on_hosts(d: int, dtype: str, causal: bool, rows: int, columns: int) -> None:
    q, k, v = given(1, rows, columns, d, dtype)
    for scale in (1 / math.sqrt(d), 1 / d):
        close(attention(q, k, v, scale=scale, causal=causal),
              exact(q, k, v, scale, causal=causal), dtype)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("d", "dtype", "causal"), [
    (8, "float32", False), (21, "bfloat16", True), (72, "float16", False), (203, "float16", True),
    (256, "bfloat16", False)])
def test_on_emulated_gpus(d: int, dtype: str, causal: bool, arch: str) -> None:
    q, k, v = given(1, 65, 143, d, dtype, heads=2)
    close(emulate(attention, q, k, v, arch=arch, scale=1 / d, causal=causal),
          exact(q, k, v, 1 / d, causal=causal), dtype)


def masks(dtype: str, batch: int, heads: int, rows: int, columns: int) -> dict[str, Any]:
    """Of one to four axes, and one that repeats a row."""
    whole = drawn((batch, heads, rows, columns), dtype, 3)
    return {"1": whole[0, 0, 0], "2": whole[0, 0], "3": whole[0], "4": whole,
            "repeated": np.broadcast_to(whole[:1, :1, :1], whole.shape)}


@pytest.mark.parametrize("mask", ["1", "2", "3", "4", "repeated"])
def test_masks_on_hosts(mask: str) -> None:
    for columns in (15, 32):
        q, k, v = given(2, 64, columns, 64, "float16", heads=8)
        bias = masks("float16", 2, 8, 64, columns)[mask]
        close(attention(q, k, v, bias, scale=0.125), exact(q, k, v, 0.125, bias=bias), "float16")


@emulated
def test_masks_on_emulated_gpus() -> None:
    q, k, v = given(2, 20, 15, 24, "float16", heads=2)
    for bias in masks("float16", 2, 2, 20, 15).values():
        close(emulate(attention, q, k, v, bias, scale=0.125), exact(q, k, v, 0.125, bias=bias),
              "float16")


def strided(on: Any = np.asarray) -> list[tuple[Any, ...]]:
    """Heads that share their keys by a stride of 0, packed projections, one number a vector."""
    q = np.lib.stride_tricks.as_strided(
        drawn((3 * 2304,), "float32", 0), (3, 16, 1, 128), [4 * s for s in (2304, 128, 2048, 1)])
    keys = [np.lib.stride_tricks.as_strided(drawn((3 * 3584,), "float32", i), (3, 16, 14, 128),
                                            [4 * s for s in (3584, 0, 256, 1)]) for i in (1, 2)]
    packed = drawn((4, 64, 3 * 16 * 64), "float16", 4).reshape(4, 64, 3, 16, 64)
    one = drawn((1, 1, 1, 2), "float16", 5).swapaxes(-1, -2)
    return [(q, *keys), tuple(packed[:, :, i].swapaxes(1, 2) for i in range(3)),
            (one, one[:, :, :1], one[:, :, :1])]


def test_strides_on_hosts() -> None:
    for q, k, v in strided():
        dtype = {2: "float16", 4: "float32"}[q.dtype.itemsize]
        close(attention(q, k, v, scale=0.1), exact(q, k, v, 0.1), dtype)


# ---- on a GPU ----


def tensors(arrays: tuple[Any, ...], dtype: str) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(a.astype("f4")).to("cuda", getattr(torch, dtype))
                 for a in arrays)


def exact_on_gpu(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    import torch

    s = scale * q.double() @ k.double().transpose(-1, -2)
    if causal:
        seen = torch.ones(s.shape[-2:], device=s.device, dtype=torch.bool).tril()
        s = s.masked_fill(~seen, -math.inf)
    return s.softmax(-1) @ v.double()


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", LENGTHS)
def test_on_a_gpu(d: int, dtype: str, causal: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for batch, rows, columns in itertools.product(BATCHES, ROWS, COLUMNS):
        q, k, v = (torch.rand(batch, HEADS, n, d, device="cuda").to(getattr(torch, dtype))
                   for n in (rows, columns, columns))
        for scale in (1 / math.sqrt(d), 1 / d):
            found = attention(q, k, v, scale=scale, causal=causal).double()
            want = exact_on_gpu(q, k, v, scale, causal)
            torch.testing.assert_close(
                found, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype],
                msg=lambda m, at=(batch, rows, columns, scale): f"{at}: {m}")


@pytest.mark.gpu
def test_masks_and_strides_on_a_gpu() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for columns in (15, 16, 32):
        arrays = given(8, 64, columns, 64, "float16", heads=8)
        for bias in masks("float16", 8, 8, 64, columns).values():
            *vectors, b = tensors((*arrays, np.ascontiguousarray(bias)), "float16")
            close(attention(*vectors, b, scale=0.125), exact(*arrays, 0.125, bias=bias), "float16")
    for arrays in strided():
        dtype = {2: "float16", 4: "float32"}[arrays[0].dtype.itemsize]
        given_strides = []
        for a, t in zip(arrays, tensors(tuple(map(np.ascontiguousarray, arrays)), dtype),
                        strict=True):
            memory = torch.empty(sum((n - 1) * s // a.itemsize for n, s in
                                     zip(a.shape, a.strides, strict=True)) + 1,
                                 device="cuda", dtype=t.dtype)
            view = memory.as_strided(a.shape, [s // a.itemsize for s in a.strides])
            given_strides.append(view.copy_(t) if 0 not in a.strides else view)
            if 0 in a.strides:
                view[:, 0].copy_(t[:, 0])
        close(attention(*given_strides, scale=0.1), exact(*arrays, 0.1), dtype)


@pytest.mark.gpu
@pytest.mark.parametrize(("batch", "heads", "rows", "d", "width", "dtype"), [
    (32, 16, 640, 128, 64, "bfloat16"), (1, 32, 8192, 64, 64, "float16"),
    (1, 2, 8192, 64, 64, "float32")])
def test_large_ones_on_a_gpu(
    batch: int, heads: int, rows: int, d: int, width: int, dtype: str
) -> None:
    """Keys and values of two lengths; long rows."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.rand(batch, heads, rows, w, device="cuda").to(getattr(torch, dtype))
               for w in (d, d, width))
    found = attention(q, k, v, scale=d**-0.5).double()
    for b, h in ((0, 0), (batch - 1, heads - 1)):
        want = exact_on_gpu(q[b, h], k[b, h], v[b, h], d**-0.5, False)
        torch.testing.assert_close(found[b, h], want, rtol=TOLERANCE[dtype],
                                   atol=TOLERANCE[dtype])
