// What CUDA code calls: the boundary between the shim headers and the executor.
//
// The shim headers are compiled together with the kernel, and in check mode they carry the same
// instrumentation.  Everything declared here lives in the uninstrumented runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "shim/vector_types.h"

namespace simt {

struct ThreadContext {
    uint3 thread_index;
    uint3 block_index;
    dim3 block_dim;
    dim3 grid_dim;
    unsigned cluster_rank;
    unsigned cluster_size;
};

// The context of the thread that runs now; the scheduler rewrites it on every switch.
extern ThreadContext context;

// Every call that can wait or fail takes the kernel's source line.  The shim functions get it from
// a default argument, which the compiler evaluates where the kernel calls them.
#define SIMT_LINE int line = __builtin_LINE()

// Always inlined, so that a reported instruction can be traced back to a line of the kernel.
#define SIMT_INLINE static inline __attribute__((always_inline))

struct BarrierVotes {
    int count;  // threads with a true predicate
    int all;
    int any;
};

BarrierVotes block_barrier(bool predicate, int line);
void cluster_arrive(bool release, int line);
void cluster_wait(int line);
void yield(int line);
uint64_t nanoseconds(int line);  // since the launch, on a clock that goes on when it is looked at
void fence();  // of gpu scope
void* map_shared_rank(void* pointer, unsigned rank, int line);

// ---- Assembly ----------------------------------------------------------------------------------

enum class Space { generic, global, shared_cta, shared_cluster };

struct Access {
    Space space;
    bool strong;    // volatile, relaxed, acquire or release: others may be waiting for it
    bool constant;  // .nc: nobody writes there while the kernel runs
};

void* locate(Space space, uint64_t address, int line);
uint32_t shared_address(const void* pointer, int line);
void* shared_pointer(uint64_t address, int line);
uint32_t map_shared_address(uint32_t address, unsigned rank, int line);
void assembly_load(void* to, size_t bytes, Access how, uint64_t address, int line);
void assembly_store(const void* from, size_t bytes, Access how, uint64_t address, int line);
void copy_async(uint32_t to, uint64_t from, uint32_t least, uint32_t bytes, uint32_t read,
                int line);
void commit_copies();
void wait_copies(uint32_t groups_left);
void wait_all_copies();
void init_mbarrier(uint64_t address, uint32_t count, int line);
void expect_bytes(uint64_t address, uint32_t bytes, int line);
void arrive_mbarrier(Space space, uint64_t address, uint32_t count, int line);
bool poll_mbarrier(uint64_t address, uint32_t parity, int line);
void copy_bulk(uint64_t to, uint64_t from, uint32_t bytes, uint64_t mbarrier, int line);
void prefetch(uint64_t address, uint64_t bytes, int line);

// ---- Warps -------------------------------------------------------------------------------------

unsigned lane_id();
void warp_sync(unsigned mask, int line);
unsigned warp_ballot(unsigned mask, bool predicate, int line);
unsigned warp_match(unsigned mask, uint64_t bits, int line);
uint64_t warp_shuffle(unsigned mask, uint64_t bits, int source_lane, int line);
uint64_t warp_reduce(unsigned mask, uint64_t bits, uint64_t (*combine)(uint64_t, uint64_t),
                     int line);

// ---- Matrices of a warp ------------------------------------------------------------------------

enum class Operand { f16, bf16, tf32 };

// Of one lane: mma.m16n8, where k takes four registers of a and two of b.
struct WarpProduct {
    Operand operand;
    float* sums[4];
    uint32_t a[4];
    uint32_t b[2];
    float added[4];
};

struct MatrixLoad {
    unsigned count;
    bool transposed;
    uint64_t row;  // the address that this lane gives
    uint32_t* words[4];
};

void multiply_warp(const WarpProduct& product, int line);
void load_matrices(const MatrixLoad& load, int line);
uint32_t transpose_matrix(uint32_t word, int line);

// ---- Products of a warpgroup -------------------------------------------------------------------

// Of one lane: wgmma.mma_async with 64 rows.
struct Wgmma {
    Operand operand;
    unsigned n;
    bool add;           // to the sums that are there
    bool b_transposed;  // rows of b lie across the inner index
    const uint32_t* words[4];  // a in registers; null: in shared memory
    uint64_t a, b;             // matrix descriptors
};

void wgmma_fence(int line);
void wgmma(const Wgmma& product, std::initializer_list<float*> sums, int line);
void wgmma_commit(int line);
void wgmma_wait(uint32_t groups_left, int line);

// ---- Boxes of tensors; some of a block's warps -------------------------------------------------

struct TensorCopy {
    uint64_t to, map, mbarrier;
    unsigned rank;
    int at[5];  // the innermost dimension first
};

void copy_tensor(const TensorCopy& copy, int line);
void prefetch_map(uint64_t map, int line);
void proxy_fence();
void mbarrier_fence();
void named_barrier(unsigned number, unsigned threads, bool waits, int line);
void set_registers(unsigned count, bool more, int line);

[[noreturn]] void fail(int line, const char* format, ...) __attribute__((format(printf, 2, 3)));
void require_aligned(const void* pointer, size_t alignment, const char* operation, int line);

// Reports one atomic access, and mutes the instrumentation of the plain read and write that
// implement it.  Threads switch only afterwards, so these are indivisible.
class AtomicScope {
public:
    AtomicScope(const void* pointer, size_t bytes, int line);
    ~AtomicScope();
    AtomicScope(const AtomicScope&) = delete;

private:
    const void* place_;
    size_t bytes_;
    uint64_t old_ = 0;
    int line_;
};

}  // namespace simt
