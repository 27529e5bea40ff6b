#pragma once
// Instructions of tensor cores, and what kernels around them need: a function each. The PTX ISA's names
// stand above every group, with the oldest GPU that has it. A warp's lanes are g = lane / 4 and
// c = lane % 4. All lanes of a warp call what is a warp's (.sync.aligned); all warps of a warpgroup, four
// that begin at a multiple of four, call what is a warpgroup's.

#include <fusegen/tiles/copies.cuh>

namespace fusegen {

// ---- Some of a block's warps: bar.sync, bar.arrive, setmaxnreg -----------------------------------------

// Meets the other warps of `threads` threads at barrier `id`, 1 to 15; 0 is that of __syncthreads.
__device__ __forceinline__ void named_barrier_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts as one of them without waiting.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// A warpgroup's registers a thread, 24 to 256 in steps of 8 (sm_90a). `up` waits until others have given
// theirs back: for ever, if all together ask for more than the launch has allotted to the block. A compiler
// must know what that is: __launch_bounds__(threads, 1).
template <int kRegisters>
__device__ __forceinline__ void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- Products of a warp: mma, ldmatrix, movmatrix, sm_80 -----------------------------------------------

enum class Operand { float16, bfloat16, tfloat32 };

// Four 8 x 8 matrices of 16 bits: lane 8 i + r gives the address of row r of matrix i, a multiple of 16
// bytes; words[i] becomes elements (g, 2c) and (g, 2c + 1), transposed (2c, g) and (2c + 1, g), of it.
__device__ __forceinline__ void load_matrices_4(unsigned (&words)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(row) : "memory");
}

__device__ __forceinline__ void load_matrices_4_transposed(unsigned (&words)[4], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(row) : "memory");
}

// Two of them, of lanes 0 to 15.
__device__ __forceinline__ void load_matrices_2(unsigned (&words)[2], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 { %0, %1 }, [%2];"
                 : "=r"(words[0]), "=r"(words[1]) : "r"(row) : "memory");
}

__device__ __forceinline__ void load_matrices_2_transposed(unsigned (&words)[2], unsigned row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 { %0, %1 }, [%2];"
                 : "=r"(words[0]), "=r"(words[1]) : "r"(row) : "memory");
}

// Of an 8 x 8 matrix of 16 bits in a warp's registers: elements (g, 2c), (g, 2c + 1) of its transpose.
__device__ __forceinline__ unsigned transpose_matrix(unsigned word)
{
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
    return turned;
}

// sums (16 x 8) += a (16 x 16) b (16 x 8), of 16-bit elements, two in a register, the lower first:
//   sums  (g, 2c) (g, 2c+1) (g+8, 2c) (g+8, 2c+1)
//   a     (g, 2c..) (g+8, 2c..) (g, 2c+8..) (g+8, 2c+8..)
//   b     (2c.., g) (2c+8.., g)
template <Operand kOperand>
__device__ __forceinline__ void multiply_16x8x16(float* sums, const unsigned* a, unsigned b0, unsigned b1)
{
    static_assert(kOperand != Operand::tfloat32, "tfloat32: multiply_16x8x8");
    if constexpr (kOperand == Operand::bfloat16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
                     " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                     " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// sums (16 x 8) += a (16 x 8) b (8 x 8), of tfloat32, an element in a register:
//   a     (g, c) (g+8, c) (g, c+4) (g+8, c+4)
//   b     (c, g) (c+4, g)
__device__ __forceinline__ void multiply_16x8x8(float* sums, const unsigned* a, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
                 " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Products of a warpgroup: wgmma, sm_90a ------------------------------------------------------------
//
// The products themselves are printed for their shapes (templates/cuda/tiles/wgmma_products.cuh.j2). They run
// beside the warpgroup: their sums, and their A where it is in registers, must not be touched from the
// fence before a product to the wait behind it, nor what they read of shared memory be written.

// Before the first product, and between any access to a product's registers and the product.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products since the last commit become a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kGroups groups, the youngest, are under way.
template <int kGroups>
__device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// Keeps registers where they are, between a wait and their use: a compiler sees no dependence of the one on
// the other, moves the use up, notices that the product is under way, and makes products wait for each other.
template <int kCount>
__device__ __forceinline__ void hold(float (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void hold(unsigned (&registers)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// Matrix Descriptor Format, of matrices with the 128-byte swizzle, whose pattern begins at multiples of
// 1024 bytes. `apart`: bytes from 8 rows of 128 bytes to the next 8. Of a matrix whose rows lie along the
// product's inner index, `chunks_apart` is unused; of one whose rows lie across it (transposed), rows of
// 64 elements, it is the bytes from one chunk of 64 to the next. A step along the inner index: 32 bytes
// further, transposed 16 rows.
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned address, unsigned chunks_apart = 16,
                                                                unsigned apart = 1024)
{
    const unsigned long long swizzle_128 = 1ull << 62;
    return swizzle_128 | static_cast<unsigned long long>(apart >> 4) << 32
           | static_cast<unsigned long long>(chunks_apart >> 4) << 16 | (address & 0x3ffff) >> 4;
}

// A descriptor of a matrix that begins so many bytes further.
__device__ __forceinline__ unsigned long long further(unsigned long long descriptor, unsigned bytes)
{
    return descriptor + (bytes >> 4);
}

// ---- Numbers: ex2, lg2, tanh, cvt, sm_80 ---------------------------------------------------------------

// 2^x, to 2 units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approximate(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float log2_approximate(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// To a relative error of 2^-11.
__device__ __forceinline__ float tanh_approximate(float x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two numbers, each rounded to the nearest, in a register, `low` in its lower half.
template <Operand kOperand>
__device__ __forceinline__ unsigned packed(float low, float high)
{
    static_assert(kOperand != Operand::tfloat32, "tfloat32: rounded_to_tfloat32");
    unsigned word;
    if constexpr (kOperand == Operand::bfloat16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// To the nearest of 10 bits behind the point, ties away from zero. Products drop what is below.
__device__ __forceinline__ unsigned rounded_to_tfloat32(float x)
{
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
    return word;
}

}  // namespace fusegen
