"""Attention by wgmma: the weights of a tile stay in registers, and multiply values as they lie.

As pair_kernels.py: a text with marked lines, and what launches it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.backend.cuda.emit.wgmma import Wgmma
from simt.executor import compile_module
from simt.tensor_maps import TensorMap
from simt.testing import Array, nans, tensor_text

# Warps 0 to 3 ask for boxes; two warpgroups have 64 rows each. While the values of a tile are
# multiplied, the scores of the next are.
ATTENTION = """
constexpr unsigned kColumns = 64, kKeys = kColumns * 128, kValues = 2 * kKeys, kRows = 128 * 128;
extern "C" __global__ void __launch_bounds__(384, 1) attention(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
    const __grid_constant__ TensorMap v, float* out, int n, int m) {
    extern __shared__ unsigned char bytes[];
    const unsigned base = (shared_address(bytes) + 1023) / 1024 * 1024;
    const unsigned keys = base + kRows, values = keys + 2 * kKeys, barriers = values + 2 * kValues;
    const unsigned keys_full = barriers, keys_empty = barriers + 16, values_full = barriers + 32;
    const unsigned values_empty = barriers + 48, rows_full = barriers + 64;
    const int head = blockIdx.y, first = blockIdx.x * 128, tiles = (m + kColumns - 1) / kColumns;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 16; s += 8) {
            barrier_init(keys_full + s, 1), barrier_init(keys_empty + s, 2);
            barrier_init(values_full + s, 1), barrier_init(values_empty + s, 2);
        }
        barrier_init(rows_full, 1);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        registers_down<40>();
        if (threadIdx.x != 0) return;
        barrier_expect(rows_full, kRows);
        copy_tile_3d(base, &q, rows_full, 0, first, head);
        for (int tile = 0; tile < tiles; ++tile) {
            const unsigned s = tile % 2, parity = tile / 2 % 2 ^ 1;
            barrier_wait(keys_empty + 8 * s, parity);  // keys are free
            barrier_expect(keys_full + 8 * s, kKeys);
            copy_tile_3d(keys + s * kKeys, &k, keys_full + 8 * s, 0, tile * kColumns, head);
            barrier_wait(values_empty + 8 * s, parity);  // values are free
            barrier_expect(values_full + 8 * s, kValues);
            for (int i = 0; i < 2; ++i)
                copy_tile_3d(values + s * kValues + i * kColumns * 128, &v, values_full + 8 * s,
                             64 * i, tile * kColumns, head);
        }
        return;
    }
    registers_up<232>();
    const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
    const int row = first + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
    float sums[kColumns / 2], result[64] = {};
    float most[2] = {-1e30f, -1e30f}, total[2] = {}, factor[2];
    unsigned weights[kColumns / 4];
    const auto multiply_keys = [&](int tile) {
        barrier_wait(keys_full + tile % 2 * 8, tile / 2 % 2);  // keys
        wgmma_fence();  // scores
        for (int i = 0; i < 4; ++i)
            scores(sums, further(matrix_descriptor(base + group * 64 * 128), 32 * i),
                   further(matrix_descriptor(keys + tile % 2 * kKeys), 32 * i), i > 0);
        wgmma_commit();
    };
    const auto multiply_values = [&](int tile) {
        barrier_wait(values_full + tile % 2 * 8, tile / 2 % 2);  // values
        wgmma_fence();  // weights
        for (int i = 0; i < kColumns / 16; ++i)
            weighted(result, weights + 4 * i, further(matrix_descriptor(
                values + tile % 2 * kValues, kColumns * 128), 2048 * i), true);
        wgmma_commit();
    };
    const auto exponentials = [&](int tile) {
        for (int h = 0; h < 2; ++h) {
            float highest = most[h];
            for (int i = 0; i < kColumns / 2; ++i) {
                if (tile * kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2 >= m) sums[i] = -1e30f;
                if (i / 2 % 2 == h) highest = fmaxf(highest, sums[i] * 1.4426950408889634f);
            }
            for (int apart = 1; apart < 4; apart *= 2)
                highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, apart));
            factor[h] = exp2_approximate(most[h] - highest);
            most[h] = highest, total[h] *= factor[h];
            for (int i = 0; i < kColumns / 2; ++i)
                if (i / 2 % 2 == h)
                    total[h] += sums[i] = exp2_approximate(sums[i] * 1.4426950408889634f - highest);
        }
    };
    const auto pack = [&] {
        for (int i = 0; i < kColumns / 4; ++i)
            weights[i] = packed<Operand::bfloat16>(sums[2 * i], sums[2 * i + 1]);
    };
    const bool leader = threadIdx.x % 128 == 0;
    barrier_wait(rows_full, 0);
    multiply_keys(0);
    wgmma_wait<0>();
    hold(sums);
    if (leader) barrier_arrive(keys_empty);
    exponentials(0);
    pack();
    for (int tile = 1; tile < tiles; ++tile) {
        multiply_keys(tile);
        multiply_values(tile - 1);
        wgmma_wait<1>();  // of scores
        hold(sums);
        if (leader) barrier_arrive(keys_empty + tile % 2 * 8);  // keys released
        exponentials(tile);
        wgmma_wait<0>();  // of values
        hold(result);
        if (leader) barrier_arrive(values_empty + (tile - 1) % 2 * 8);  // values released
        for (int i = 0; i < 64; ++i) result[i] *= factor[i / 2 % 2];
        pack();
    }
    multiply_values(tiles - 1);
    wgmma_wait<0>();  // of the last values
    hold(result);
    for (int h = 0; h < 2; ++h) {
        total[h] += __shfl_xor_sync(~0u, total[h], 1);
        total[h] += __shfl_xor_sync(~0u, total[h], 2);
        if (row + 8 * h >= n) continue;
        float* to = out + ((long long)head * n + row + 8 * h) * 128 + lane % 4 * 2;
        for (int i = 0; i < 32; ++i)
            to[i / 2 * 8 + i % 2] = result[i / 2 * 4 + 2 * h + i % 2] / total[h];
    }
}
"""


def run_attention(q: Array, k: Array, v: Array, text: str = ATTENTION, seed: int = 0) -> Array:
    """softmax(q kᵀ) v of bfloat16 words: q (heads, n, 64), k (heads, m, 64), v (heads, m, 128)."""
    heads, n, _ = q.shape
    out = nans(heads, n, 128)
    products = (Wgmma("scores", 64, "bfloat16"), Wgmma("weighted", 128, "bfloat16", True, True))
    maps: list[Any] = [TensorMap(x, (1, rows, 64)) for x, rows in ((q, 128), (k, 64), (v, 64))]
    module = compile_module(tensor_text(text, *products))
    module.launch("attention", (-(-n // 128), heads), (384,), [*maps, out, n, k.shape[1]],
                  outputs={3}, shared_bytes=1024 + 128 * (128 + 6 * 64) + 80, seed=seed)
    return out


def attention(q: Array, k: Array, v: Array) -> Array:
    """The same in float64, of numbers."""
    scores = q @ k.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=2, keepdims=True))
