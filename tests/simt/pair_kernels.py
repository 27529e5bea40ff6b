"""Kernels over pairs of rows, whose products no memory holds: what the tests of tensor cores run.

Each is a text with marked lines, which tests take away or change, and what launches it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegen.backend.cuda.emit.wgmma import Wgmma
from simt.executor import compile_module
from simt.tensor_maps import TensorMap
from simt.testing import Array, bits_of, nans, tensor_text

FOLD = """
// A row's greatest score and the sum of exponentials below it, where this thread has it in parts.
struct Row {
    float most = -1e30f, sum = 0.f;
    __device__ void add(float most_, float sum_) {
        const float above = fmaxf(most, most_);
        sum = sum * exp2_approximate(most - above) + sum_ * exp2_approximate(most_ - above);
        most = above;
    }
    __device__ float logsumexp() const {
        return (most + log2_approximate(sum)) / 1.4426950408889634f;
    }
};
__device__ Row of_four_lanes(Row row) {
    for (int apart = 1; apart < 4; apart *= 2) {
        const float most = __shfl_xor_sync(~0u, row.most, apart);
        row.add(most, __shfl_xor_sync(~0u, row.sum, apart));
    }
    return row;
}
"""

WARPS = FOLD + """
constexpr int kInner = 32, kColumns = 32, kPitch = kInner * 2 + 16, kStage = kColumns * kPitch;
extern "C" __global__ void logsumexp(const unsigned short* q, const unsigned short* y, float* out,
                                     int n, int m) {
    extern __shared__ __align__(16) unsigned char bytes[];
    const unsigned stages = shared_address(bytes);
    const int lane = threadIdx.x % 32, first = blockIdx.x * 32 + threadIdx.x / 32 * 16 + lane / 4;
    const int c = lane % 4, tiles = (m + kColumns - 1) / kColumns;
    const auto fetch = [&](int tile) {
        for (int i = threadIdx.x; i < kColumns * kInner / 8 && tile < tiles; i += blockDim.x) {
            const int row = i / (kInner / 8), part = i % (kInner / 8), j = tile * kColumns + row;
            copy_async_16(stages + tile % 2 * kStage + row * kPitch + part * 16,
                          y + (j < m ? j : 0) * kInner + part * 8, j < m);
        }
        copies_commit();
    };
    unsigned a[kInner / 16][4];
    for (int i = 0; i < kInner / 4; ++i) {
        const int row = first + i % 2 * 8, column = i / 2 * 8 + 2 * c;
        memcpy(&a[i / 4][i % 4], q + (row < n ? row : n - 1) * kInner + column, 4);
    }
    Row rows[2];
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
        fetch(tile + 1);
        copies_wait<1>();
        __syncthreads();  // landed
        float sums[kColumns / 8][4] = {};
        for (int k = 0; k < kInner / 16; ++k)
            for (int j = 0; j < kColumns / 16; ++j) {
                const int row = 16 * j + lane / 16 * 8 + lane % 8, part = 2 * k + lane / 8 % 2;
                unsigned b[4];
                load_matrices_4(b, stages + tile % 2 * kStage + row * kPitch + part * 16);
                multiply_16x8x16<Operand::bfloat16>(sums[2 * j], a[k], b[0], b[1]);
                multiply_16x8x16<Operand::bfloat16>(sums[2 * j + 1], a[k], b[2], b[3]);
            }
        for (int i = 0; i < kColumns / 2; ++i)
            if (tile * kColumns + i / 4 * 8 + 2 * c + i % 2 < m)
                rows[i / 2 % 2].add(sums[i / 4][i % 4] * 1.4426950408889634f, 1.f);
        __syncthreads();  // read
    }
    copies_wait<0>();
    for (int h = 0; h < 2; ++h) {
        const Row row = of_four_lanes(rows[h]);
        if (c == 0 && first + 8 * h < n) out[first + 8 * h] = row.logsumexp();
    }
}
"""

# Warps 0 to 3 ask for boxes, 4 to 7 multiply. kOperand's chunk has 128 bytes a row.
WARPGROUPS = FOLD + """
constexpr unsigned kColumns = 32, kRows = 64 * 128, kStage = kColumns * 128;
extern "C" __global__ void __launch_bounds__(256, 1) logsumexp(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap y, float* out,
    int n, int m) {
    extern __shared__ unsigned char bytes[];
    const unsigned base = (shared_address(bytes) + 1023) / 1024 * 1024, stages = base + kRows;
    const unsigned full = stages + 2 * kStage, empty = full + 16, rows_full = full + 32;
    const int tiles = (m + kColumns - 1) / kColumns, first = blockIdx.x * 64;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) barrier_init(full + 8 * s, 1), barrier_init(empty + 8 * s, 1);
        barrier_init(rows_full, 1);
        barriers_ready();
    }
    __syncthreads();  // initialised
    if (threadIdx.x < 128) {
        registers_down<56>();
        if (threadIdx.x == 0) {
            barrier_expect(rows_full, kRows);
            copy_tile_2d(base, &q, rows_full, 0, first);
            for (int tile = 0; tile < tiles; ++tile) {
                const unsigned s = tile % 2, parity = tile / 2 % 2;
                barrier_wait(empty + 8 * s, parity ^ 1);
                barrier_expect(full + 8 * s, kStage);
                copy_tile_2d(stages + s * kStage, &y, full + 8 * s, 0, tile * kColumns);
            }
        }
        return;
    }
    registers_up<256>();
    const int lane = threadIdx.x % 32, row = first + (threadIdx.x - 128) / 32 * 16 + lane / 4;
    Row rows[2];
    barrier_wait(rows_full, 0);  // rows
    for (int tile = 0; tile < tiles; ++tile) {
        const unsigned s = tile % 2, parity = tile / 2 % 2;
        float sums[kColumns / 2];
        barrier_wait(full + 8 * s, parity);  // filled
        const auto a = matrix_descriptor(base), b = matrix_descriptor(stages + s * kStage);
        wgmma_fence();
        for (int k = 0; k < 4; ++k) scores(sums, further(a, 32 * k), further(b, 32 * k), k > 0);
        wgmma_commit();
        wgmma_wait<0>();
        hold(sums);
        if (threadIdx.x == 128) barrier_arrive(empty + 8 * s);  // released
        for (int i = 0; i < kColumns / 2; ++i)
            if (tile * kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2 < m)
                rows[i / 2 % 2].add(sums[i] * 1.4426950408889634f, 1.f);
    }
    for (int h = 0; h < 2; ++h) {
        const Row whole = of_four_lanes(rows[h]);
        if (lane % 4 == 0 && row + 8 * h < n) out[row + 8 * h] = whole.logsumexp();
    }
}
"""


def run_warps(q: Array, y: Array, text: str = WARPS, seed: int = 0) -> Array:
    """log Σ_j exp(q_i · y_j) by mma.sync, of bfloat16 words (n, 32) and (m, 32)."""
    out = nans(len(q))
    module = compile_module(tensor_text(text))
    module.launch("logsumexp", (-(-len(q) // 32),), (64,), [q, y, out, len(q), len(y)],
                  outputs={2}, shared_bytes=2 * 32 * 80, seed=seed)
    return out


def run_warpgroups(
    q: Array, y: Array, operand: Any = "bfloat16", text: str = WARPGROUPS, seed: int = 0,
    **maps: Any,
) -> Array:
    """The same by wgmma, of words (n, d) and (m, d), where a row has at most 128 bytes."""
    out, across = nans(len(q)), 128 // q.itemsize
    given = {"q": TensorMap(q, (64, across)), "y": TensorMap(y, (32, across))} | maps
    module = compile_module(tensor_text(text, Wgmma("scores", 32, operand)))
    module.launch("logsumexp", (-(-len(q) // 64),), (256,),
                  [given["q"], given["y"], out, len(q), len(y)], outputs={2},
                  shared_bytes=1024 + 64 * 128 + 2 * 32 * 128 + 40, seed=seed)
    return out


def logsumexp(q: Array, y: Array) -> Array:
    """The same in float64, of numbers."""
    scores = q @ y.T
    most = scores.max(axis=1)
    return np.asarray(most + np.log(np.exp(scores - most[:, None]).sum(axis=1)))


def vectors(rows: int, columns: int, operand: str, seed: int = 0) -> Array:
    """Words of random numbers, whose rows begin at multiples of 16 bytes."""
    x = np.random.default_rng(seed).normal(size=(rows, columns)) / columns**0.25
    return np.ascontiguousarray(bits_of(x, operand))
