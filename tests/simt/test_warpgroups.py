"""Products of a warpgroup by shape, fences between proxies, and barriers of some warps."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fusegen.backend.cuda.emit.wgmma import Wgmma
from simt import SimtError, available, compile_module
from simt.testing import SEEDS, Array, bits_of, iota, nans, numbers_of, tensor_text

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

# y = 1 + a b, or a b where a product begins: both are filled by threads, a (64, 32 bytes) with rows
# of 128 bytes; b likewise, or transposed in chunks of 64 columns, rows of the inner index.
PRODUCT = """
__device__ unsigned at(unsigned row, unsigned byte) {
    return row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16;
}
extern "C" __global__ void k(const WORD* a, const WORD* b, float* y) {
    extern __shared__ __align__(128) unsigned char raw[];
    const unsigned base = (shared_address(raw) + 1023) / 1024 * 1024;
    unsigned char* left = raw + (base - shared_address(raw));
    unsigned char* right = left + 64 * 128;
    const int t = threadIdx.x, lane = t % 32, size = sizeof(WORD), k = 32 / size;
    for (int i = t; i < 64 * k; i += 128)
        *reinterpret_cast<WORD*>(left + at(i / k, i % k * size + STEP)) = a[i];
    for (int i = t; i < N * k; i += 128) {
        const int n = i / k, inner = i % k;
        const unsigned place = TRANSPOSED ? n / 64 * 2048 + at(inner, n % 64 * 2)
                                          : at(n, inner * size + STEP);
        *reinterpret_cast<WORD*>(right + place) = b[i];
    }
    async_proxy_fence();  // filled
    __syncthreads();
    float sums[N / 2];
    for (int i = 0; i < N / 2; ++i) sums[i] = 1.f;
    unsigned words[4];
    const int row = t / 32 * 16 + lane / 4;
    for (int i = 0; i < 4; ++i) {
        const WORD* from = a + (row + i % 2 * 8) * k + (i / 2 * 4 + lane % 4) * (4 / size);
        memcpy(&words[i], from, 4);
    }
    wgmma_fence();
    product(sums, A, TRANSPOSED ? matrix_descriptor(base + 64 * 128, 2048)
                                : further(matrix_descriptor(base + 64 * 128), STEP), true);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < N / 2; ++i)
        y[(row + i / 2 % 2 * 8) * N + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
}
"""

SHAPES = (
    Wgmma("product", 8, "float16"),
    Wgmma("product", 80, "bfloat16", b_transposed=True),
    Wgmma("product", 256, "bfloat16"),
    Wgmma("product", 136, "float16", a_in_registers=True, b_transposed=True),
    Wgmma("product", 24, "tfloat32"),
    Wgmma("product", 40, "tfloat32", a_in_registers=True),
    Wgmma("product", 128, "bfloat16", begins=True),
)


def multiply(shape: Wgmma, old: str = "", new: str = "", seed: int = 0, check: bool = True) -> None:
    """Run the product of a shape and compare it; or with a part of the text changed."""
    assert old in PRODUCT
    random = np.random.default_rng(0)
    a, b = (bits_of(random.normal(size=(rows, shape.k)), shape.operand) for rows in (64, shape.n))
    a_text = "words" if shape.a_in_registers else "further(matrix_descriptor(base), STEP)"
    body = PRODUCT.replace(old, new, 1).replace("A, TRANS", f"{a_text}, TRANS")
    body = body.replace("STEP), true);", "STEP));") if shape.begins else body
    constants = {"WORD": "unsigned" if shape.k == 8 else "unsigned short", "N": shape.n,
                 "TRANSPOSED": int(shape.b_transposed), "STEP": 96}
    defined = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    y = nans(64, shape.n)
    module = compile_module(tensor_text(defined + body, shape), check=check)
    module.launch("k", (1,), (128,), [a, b, y], outputs={2}, seed=seed,
                  shared_bytes=1024 + (64 + 256) * 128)
    expected = (not shape.begins) + numbers_of(a, shape.operand) @ numbers_of(b, shape.operand).T
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: Wgmma) -> None:
    multiply(shape)


def test_without_checks() -> None:
    multiply(SHAPES[1], check=False)


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("async_proxy_fence();  // filled\n", "", "has written without a fence.proxy.async"),
        ("async_proxy_fence();  // filled\n    __syncthreads();", "async_proxy_fence();",
         "shared-memory race|uninitialised"),
        ("async_proxy_fence();  // filled", "async_proxy_fence();\nright[at(0, 97)] = 1;",
         "race|without a fence.proxy.async"),
        ("    wgmma_wait<0>();\n", "right[at(0, 97)] = 1;\nwgmma_wait<0>();",
         "does not know that the wgmma which reads it is done"),
        ("    wgmma_commit();\n    wgmma_wait<0>();\n", "return;", "exits without waiting for its"),
        ("    wgmma_wait<0>();\n", "return;", "exits without waiting for its wgmma"),
        ("+ 1023) / 1024 * 1024", "+ 1023) / 1024 * 1024 + 256", "descriptor of a begins at"),
        ("matrix_descriptor(base + 64 * 128), STEP)", "matrix_descriptor(base + 8192, 16, 512), 0)",
         "rows of b are 512 bytes apart"),
        ("matrix_descriptor(base + 64 * 128), STEP)", "(base + 64 * 128) / 16ull, 0)",
         "only those of matrices with the 128-byte swizzle"),
    ],
)
def test_faults(old: str, new: str, pattern: str) -> None:
    for seed in SEEDS:
        with pytest.raises(SimtError, match=pattern):
            multiply(SHAPES[0], old, new, seed)


def test_a_fence_where_it_is_read() -> None:
    """As good as one where it was written."""
    fence = "async_proxy_fence();  // filled\n"
    multiply(SHAPES[0], f"{fence}    __syncthreads();", "__syncthreads();\nasync_proxy_fence();")


# ---- Barriers of some warps ----------------------------------------------------------------------

PING_PONG = """
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    if (t < 64) {
        for (int i = 0; i < 3; ++i) {
            named_barrier_sync(1, 128);  // free
            s[t] = x[64 * i + t];
            named_barrier_arrive(2, 128);  // filled
        }
    } else {
        float sum = 0.f;
        named_barrier_arrive(1, 128);  // first
        for (int i = 0; i < 3; ++i) {
            named_barrier_sync(2, 128);  // wait
            sum += s[127 - t];
            if (i < 2) named_barrier_arrive(1, 128);  // read
        }
        y[127 - t] = sum;
    }
}
"""


def ping_pong(text: str, seed: int) -> Array:
    y = nans(64)
    module = compile_module(tensor_text(text))
    module.launch("k", (1,), (128,), [iota(192), y], outputs={1}, seed=seed)
    return y


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers(seed: int) -> None:
    expected = iota(192).reshape(3, 64).sum(axis=0)
    np.testing.assert_array_equal(ping_pong(PING_PONG, seed), expected)


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("named_barrier_sync(1, 128);  // free", "", "race|uninitialised|arrives again"),
        ("named_barrier_sync(2, 128);  // wait", "", "race|uninitialised|arrives again"),
        ("named_barrier_arrive(2, 128);  // filled", "",
         "deadlock: .*wait for named barrier 1: 64 of 128 threads are there"),
        ("named_barrier_arrive(2, 128);  // filled", "named_barrier_arrive(2, 96);",
         "named barrier 2: (96|128) threads here, but those that are there expect (96|128)"),
        ("named_barrier_arrive(2, 128);  // filled", "named_barrier_arrive(2, 100);",
         "named barrier 2: 100 threads are no whole warps of a block of 128"),
        ("named_barrier_arrive(1, 128);  // first", "named_barrier_arrive(0, 128);",
         "no named barrier 0: they are 1 to 15"),
        ("named_barrier_arrive(1, 128);  // first", "", "wait for named barrier 1: 64 of 128"),
        ("if (i < 2) named_barrier_arrive(1, 128);  // read",
         "named_barrier_arrive(1, 128); named_barrier_arrive(1, 128);", "arrives again"),
    ],
)
def test_faults_of_named_barriers(old: str, new: str, pattern: str) -> None:
    assert old in PING_PONG
    for seed in SEEDS:
        with pytest.raises(SimtError, match=re.compile(pattern, re.DOTALL)):
            ping_pong(PING_PONG.replace(old, new), seed)
