"""What the tests of the executor share: small arrays, and kernels built around a body."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fusegen.backend.cuda.emit.wgmma import Wgmma
from fusegen.backend.emit.render import render
from fusegen.backend.emit.source import Source
from simt.executor import compile_module

Array: TypeAlias = npt.NDArray[Any]
SEEDS = (0, 1, 2)
"""Launch orders to try: in order, and two random ones."""


def iota(count: int) -> Array:
    """Return 0, 1, 2, ... as floats."""
    return np.arange(count, dtype=np.float32)


def nans(*shape: int) -> Array:
    """Return an output array that shows what was not written."""
    return np.full(shape, np.nan, dtype=np.float32)


def kernel(body: str, parameters: str = "const float* x, float* y", prelude: str = "") -> str:
    """Return a source with one kernel `k`, whose body starts on line 2 of a one-line prelude."""
    return f'{prelude}\nextern "C" __global__ void k({parameters}) {{\n{body}\n}}\n'


def run(body: str, *, threads: int = 64, seed: int = 0, n: int = 64, **options: Any) -> Array:
    """Run a kernel `k(const float* x, float* y)` on 0, 1, 2, ... and return y."""
    module = compile_module(kernel(body, prelude=options.pop("prelude", "")))
    y = nans(n)
    module.launch("k", (1,), (threads,), [iota(n), y], outputs={1}, seed=seed, **options)
    return y


def aligned_floats(count: int) -> Array:
    """Return an array that begins at a multiple of 16 bytes."""
    buffer = np.zeros(count + 4, dtype=np.float32)
    start = -buffer.ctypes.data % 16 // 4
    return buffer[start : start + count]


BITONIC_SORT = kernel(
    """
    extern __shared__ float keys[];
    const unsigned t = threadIdx.x;
    keys[t] = x[blockIdx.x * blockDim.x + t];
    for (unsigned size = 2; size <= blockDim.x; size <<= 1) {
        for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            const unsigned partner = t ^ stride;
            const bool ascending = (t & size) == 0;
            if (partner > t && (keys[t] > keys[partner]) == ascending) {
                const float swap = keys[t];
                keys[t] = keys[partner];
                keys[partner] = swap;
            }
        }
    }
    __syncthreads();
    y[blockIdx.x * blockDim.x + t] = keys[t];"""
)

CLUSTER_SUM = kernel(
    """
    __shared__ float part;
    __shared__ float from_all[4];
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank();
    cluster.sync();  // 0
    if (threadIdx.x == 0) {
        part = x[blockIdx.x];
        *cluster.map_shared_rank(&from_all[rank], 0) = 10.f * x[blockIdx.x];
    }
    cluster.sync();  // 1
    float sum = 0.f;
    for (unsigned r = 0; r < cluster.num_blocks(); ++r) sum += *cluster.map_shared_rank(&part, r);
    if (rank == 0 && threadIdx.x == 0) {
        y[blockIdx.x / 4] = sum + from_all[0] + from_all[1] + from_all[2] + from_all[3];
    }
    cluster.sync();  // 2""",
    prelude="#include <cooperative_groups.h>",
)


def tensor_text(body: str, *products: Wgmma) -> str:
    """A source with a body behind <fusegen/tiles/instructions.cuh>, and these functions in it."""
    printed = render("cuda/tiles/wgmma_products.cuh.j2", {"products": products}) if products else ""
    return Source(printed + body, headers=("fusegen/tiles/instructions.cuh",)).text()


def bits_of(x: Array, operand: str) -> Array:
    """Numbers rounded to float16, bfloat16 or tfloat32, as words of 16 or 32 bits."""
    if operand == "float16":
        return x.astype(np.float16).view(np.uint16)
    words = np.ascontiguousarray(x, np.float32).view(np.uint32)
    if operand == "tfloat32":
        return (words + 0x1000) & np.uint32(0xFFFFE000)
    return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)


def numbers_of(bits: Array, operand: str) -> Array:
    """The numbers that such words stand for, in float64."""
    if operand == "float16":
        return bits.view(np.float16).astype(np.float64)
    shift = 16 if operand == "bfloat16" else 0
    return (bits.astype(np.uint32) << np.uint32(shift)).view(np.float32).astype(np.float64)
