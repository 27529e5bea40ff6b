"""Matrices of a warp: what its lanes hold, and what is reported when they do not go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import SimtError, available, compile_module
from simt.testing import bits_of, nans, numbers_of, tensor_text

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

# y = a b: a is (16, k), b (8, k); rows of 32 bytes in shared memory, one behind the other.
PRODUCTS = """
template <Operand kOperand, typename T>
__device__ void product(const T* a, const T* b, float* y) {
    __shared__ __align__(16) T left[16][32 / sizeof(T)], right[8][32 / sizeof(T)];
    const int lane = threadIdx.x, columns = 32 / sizeof(T);
    for (int i = lane; i < 16 * columns; i += 32) left[i / columns][i % columns] = a[i];
    for (int i = lane; i < 8 * columns; i += 32) right[i / columns][i % columns] = b[i];
    __syncwarp();  // filled
    unsigned words[4], others[2];
    load_matrices_4(words, shared_address(left[lane % 16]) + lane / 16 * 16);
    load_matrices_2(others, shared_address(right[lane % 8]) + lane / 8 % 2 * 16);
    float sums[4] = {1.f, 1.f, 1.f, 1.f};
    if constexpr (kOperand == Operand::tfloat32) multiply_16x8x8(sums, words, others[0], others[1]);
    else multiply_16x8x16<kOperand>(sums, words, others[0], others[1]);
    for (int i = 0; i < 4; ++i)
        y[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}
extern "C" __global__ void float16(const unsigned short* a, const unsigned short* b, float* y) {
    product<Operand::float16>(a, b, y);
}
extern "C" __global__ void bfloat16(const unsigned short* a, const unsigned short* b, float* y) {
    product<Operand::bfloat16>(a, b, y);
}
extern "C" __global__ void tfloat32(const unsigned* a, const unsigned* b, float* y) {
    product<Operand::tfloat32>(a, b, y);
}
"""


@pytest.mark.parametrize("operand", ["float16", "bfloat16", "tfloat32"])
def test_products(operand: str) -> None:
    module = compile_module(tensor_text(PRODUCTS))
    random = np.random.default_rng(0)
    k = 8 if operand == "tfloat32" else 16
    a, b = (bits_of(random.normal(size=(rows, k)), operand) for rows in (16, 8))
    y = nans(16, 8)
    module.launch(operand, (1,), (32,), [a, b, y], outputs={2})
    expected = 1 + numbers_of(a, operand) @ numbers_of(b, operand).T
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_infinities_and_nan_stay() -> None:
    a, b = np.zeros((16, 16)), np.ones((8, 16))
    a[0, 3], a[1, 0], a[1, 9], b[5, 3] = np.inf, np.inf, -np.inf, 0
    y = nans(16, 8)
    words = [bits_of(x, "bfloat16") for x in (a, b)]
    compile_module(tensor_text(PRODUCTS)).launch("bfloat16", (1,), (32,), [*words, y], outputs={2})
    assert np.isnan(y[1]).all()
    assert np.isnan(y[0, 5])
    assert (y[0, [0, 1, 2, 3, 4, 6, 7]] == np.inf).all()


TURNED = """
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(16) unsigned matrices[4][8][4];
    const int lane = threadIdx.x;
    for (int i = lane; i < 128; i += blockDim.x) matrices[i / 32][i / 4 % 8][i % 4] = x[i];
    __syncwarp();
    unsigned four[4], two[2];
    load_matrices_4_transposed(four, shared_address(matrices[lane / 8][lane % 8]));
    load_matrices_2_transposed(two, shared_address(matrices[2 + lane / 8 % 2][lane % 8]));
    for (int i = 0; i < 4; ++i) y[32 * i + lane] = four[i];
    y[128 + lane] = two[1];
    y[160 + lane] = transpose_matrix(four[0]);
}
"""


def test_transposed() -> None:
    x = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    y = np.zeros((6, 8, 8), np.uint16)
    module = compile_module(tensor_text(TURNED))
    module.launch("k", (1,), (32,), [x.view(np.uint32), y.view(np.uint32)], outputs={1})
    np.testing.assert_array_equal(y[:4], x.transpose(0, 2, 1))
    np.testing.assert_array_equal(y[4:], [x[3].T, x[0]])


NUMBERS = """
extern "C" __global__ void k(const float* x, unsigned* y) {
    const float a = x[2 * threadIdx.x], b = x[2 * threadIdx.x + 1];
    y[threadIdx.x] = packed<Operand::bfloat16>(a, b);
    y[32 + threadIdx.x] = packed<Operand::float16>(a, b);
    y[64 + threadIdx.x] = rounded_to_tfloat32(a);
    y[96 + threadIdx.x] = __float_as_uint(tanh_approximate(a) + exp2_approximate(b));
    float held[2] = {a, b};
    hold(held);
    y[128 + threadIdx.x] = __float_as_uint(held[1]);
}
"""


def test_numbers() -> None:
    x = np.random.default_rng(1).normal(size=64).astype(np.float32)
    y = np.zeros(160, np.uint32)
    compile_module(tensor_text(NUMBERS)).launch("k", (1,), (32,), [x, y], outputs={1})
    np.testing.assert_array_equal(y[:32].view(np.uint16), bits_of(x, "bfloat16"))
    np.testing.assert_array_equal(y[32:64].view(np.uint16), bits_of(x, "float16"))
    np.testing.assert_array_equal(y[64:96], bits_of(x[::2], "tfloat32"))
    expected = np.tanh(x[::2]) + np.exp2(x[1::2])
    np.testing.assert_allclose(y[96:128].view(np.float32), expected, rtol=1e-5)
    np.testing.assert_array_equal(y[128:].view(np.float32), x[1::2])


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("__syncwarp();  // filled", "", "uninitialised shared|shared-memory race"),
        ("+ lane / 16 * 16", "+ lane / 16 * 8", "misaligned access: ldmatrix"),
        ("shared_address(left[", "shared_address(left[4 + ", "out-of-bounds|uninitialised|array"),
        ("unsigned words[4]", "if (lane == 7) return;\nunsigned words[4]", "divergent warp coll"),
        ("float sums[4]", "if (lane == 7) __syncwarp();\nfloat sums[4]", "divergent warp coll"),
    ],
)
def test_mutants(old: str, new: str, pattern: str) -> None:
    assert old in PRODUCTS
    module = compile_module(tensor_text(PRODUCTS.replace(old, new)))
    words: list[Any] = [np.zeros((16, 16), np.uint16), np.zeros((8, 16), np.uint16), nans(16, 8)]
    with pytest.raises(SimtError, match=pattern):
        module.launch("bfloat16", (1,), (32,), words, outputs={2})


def test_a_warp_of_few_lanes() -> None:
    module = compile_module(tensor_text(TURNED))
    x, y = np.zeros(128, np.uint32), np.zeros(192, np.uint32)
    with pytest.raises(SimtError, match="needs a whole warp: this one has 16 lanes"):
        module.launch("k", (1,), (16,), [x, y], outputs={1})
