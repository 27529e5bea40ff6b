"""Tensor cores and asynchronous copies: the compiler of every GPU that has them takes them."""

from __future__ import annotations

import pytest
from simt.attention_kernel import ATTENTION
from simt.pair_kernels import WARPGROUPS as PAIRS_OF_WARPGROUPS
from simt.pair_kernels import WARPS as PAIRS_OF_WARPS
from simt.testing import tensor_text
from support import nvrtc

from fusegen.backend.cuda.emit.wgmma import Wgmma
from fusegen.ir.errors import InternalError

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

WARPS = """
extern "C" __global__ void __launch_bounds__(128) warps(const void* from, float* out) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    const unsigned at = shared_address(bytes) + threadIdx.x % 32 * 16;
    copy_async_16(at, from);
    copy_async_16(at + 512, from, threadIdx.x > 5);
    copies_commit(), copies_wait<1>(), copies_wait<0>();
    named_barrier_arrive(1, 128), named_barrier_sync(2, 64);
    unsigned a[4], b[2];
    float sums[4] = {};
    load_matrices_4(a, at), load_matrices_2(b, at);
    multiply_16x8x16<Operand::bfloat16>(sums, a, b[0], b[1]);
    load_matrices_4_transposed(a, at), load_matrices_2_transposed(b, at);
    multiply_16x8x16<Operand::float16>(sums, a, b[0], transpose_matrix(b[1]));
    multiply_16x8x8(sums, a, rounded_to_tfloat32(sums[1]), b[1]);
    out[threadIdx.x] = exp2_approximate(sums[0]) + log2_approximate(sums[1])
                       + tanh_approximate(sums[2]) + packed<Operand::bfloat16>(sums[2], sums[3])
                       + packed<Operand::float16>(sums[2], sums[3]);
}
"""

COPIES = """
extern "C" __global__ void copies(const __grid_constant__ TensorMap map, const void* from) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    const unsigned barrier = shared_address(bytes), to = barrier + 1024;
    barrier_init(barrier, 1);
    barriers_ready();
    prefetch_map(&map);
    barrier_expect(barrier, 5 * 1024);
    copy_bulk(to, from, 1024, barrier);
    copy_tile_2d(to, &map, barrier, 0, 1);
    copy_tile_3d(to, &map, barrier, 0, 1, 2);
    copy_tile_3d(to, &map, barrier, 0, 1, 2, read_once());
    copy_tile_4d(to, &map, barrier, 0, 1, 2, 3);
    copy_tile_5d(to, &map, barrier, 0, 1, 2, 3, 4);
    async_proxy_fence();
    barrier_wait(barrier, 0), barrier_wait(barrier, 0);
    barrier_arrive(barrier), copy_async_some(to, from, 8), barrier_arrive_copied(barrier);
}
"""

WARPGROUPS = """
extern "C" __global__ void __launch_bounds__(256, 1) groups(float* out) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    const unsigned at = shared_address(bytes);
    if (threadIdx.x < 128) {
        registers_down<24>();
    } else {
        registers_up<240>();
        const unsigned long long a = matrix_descriptor(at), b = matrix_descriptor(at, 2048);
        unsigned words[4] = {1, 2, 3, 4};
        float sums[SUMS];
        hold(words);
        wgmma_fence();
        product(sums, A, further(b, 32), false);
        wgmma_commit(), wgmma_wait<0>();
        hold(sums);
        for (int i = 0; i < SUMS; ++i) out[i * 128 + threadIdx.x] = sums[i];
    }
}
"""

SHAPES = (
    Wgmma("product", 8, "float16"),
    Wgmma("product", 80, "bfloat16", b_transposed=True),
    Wgmma("product", 128, "bfloat16", a_in_registers=True),
    Wgmma("product", 64, "float16", a_in_registers=True, b_transposed=True),
    Wgmma("product", 256, "tfloat32"),
    Wgmma("product", 24, "tfloat32", a_in_registers=True),
    Wgmma("product", 128, "bfloat16", begins=True),
)


@compiled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_warps(arch: str) -> None:
    assert nvrtc.valid_for(tensor_text(WARPS), arch).reports


@compiled
@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_copies(arch: str) -> None:
    assert nvrtc.valid_for(tensor_text(COPIES), arch).reports


@compiled
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_warpgroups(shape: Wgmma) -> None:
    a = "words" if shape.a_in_registers else "a"
    body = WARPGROUPS.replace("SUMS", str(shape.sums)).replace("A, further", f"{a}, further")
    body = body.replace("32), false);", "32));") if shape.begins else body
    reports = nvrtc.compile_for(tensor_text(body, shape), "sm_90a").reports
    assert [r.spill_bytes for r in reports] == [0]


@compiled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_emulated_pairs_of_warps(arch: str) -> None:
    """What the emulator runs is CUDA."""
    assert nvrtc.valid_for(tensor_text(PAIRS_OF_WARPS), arch).reports


@compiled
def test_emulated_pairs_of_warpgroups() -> None:
    scores = Wgmma("scores", 32, "bfloat16")
    assert nvrtc.valid_for(tensor_text(PAIRS_OF_WARPGROUPS, scores), "sm_90a").reports
    both = Wgmma("scores", 64, "bfloat16"), Wgmma("weighted", 128, "bfloat16", True, True)
    assert nvrtc.valid_for(tensor_text(ATTENTION, *both), "sm_90a").reports


def test_shapes_that_do_not_exist() -> None:
    for n in (0, 4, 12, 264):
        with pytest.raises(InternalError, match=f"not {n}"):
            Wgmma("product", n, "bfloat16")
    with pytest.raises(InternalError, match="only 16-bit"):
        Wgmma("product", 8, "tfloat32", b_transposed=True)
