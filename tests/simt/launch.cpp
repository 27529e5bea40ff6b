// A launch from the host's side: places the arguments, runs the grid, copies the results back.
#include <link.h>

#include <algorithm>
#include <cstring>

#include "arguments.h"
#include "fault_guard.h"
#include "machine.h"

// The dynamic shared array, at the end of the thread-local segment: the build adds it as assembly,
// under every name that the kernels declare for it.
extern "C" thread_local char simt_dynamic_shared[];

// Shared with executor.py, which mirrors it.
struct LaunchRequest {
    void (*kernel)(void**);
    const Argument* arguments;
    size_t argument_count;
    unsigned grid[3];
    unsigned block[3];
    unsigned cluster_size;
    int checking;
    int together;
    int wgmma;  // does the kernel use it?
    size_t shared_bytes;
    uint64_t seed;
    simt::Stacks* stacks;  // for all threads that run at once
    const size_t* foreign;  // offset and bytes of each static shared array of other sources
    size_t foreign_count;
};

namespace simt {

namespace {

// ---- The module --------------------------------------------------------------------------------

// Finds the loaded module that this code is part of.
int find_module(dl_phdr_info* info, size_t, void* raw_machine) {
    Machine& m = *static_cast<Machine*>(raw_machine);
    const char* base = reinterpret_cast<const char*>(info->dlpi_addr);
    size_t image_bytes = 0;
    size_t segment_bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type == PT_LOAD) image_bytes = header.p_vaddr + header.p_memsz;
        if (header.p_type == PT_TLS) segment_bytes = header.p_memsz;
    }
    const AddressRange image = {const_cast<char*>(base), image_bytes};
    if (!image.contains(&machine)) return 0;
    m.image = image;
    m.shared.segment = {static_cast<char*>(info->dlpi_tls_data), segment_bytes};
    return 1;
}

void locate_module(Machine& m, size_t shared_bytes) {
    char* volatile dynamic = simt_dynamic_shared;  // allocates the segment for this CPU thread
    dl_iterate_phdr(find_module, &m);
    m.shared.dynamic_offset = static_cast<size_t>(dynamic - m.shared.segment.begin);
    const size_t capacity = m.shared.segment.bytes - m.shared.dynamic_offset;
    m.shared.dynamic_bytes = shared_bytes < capacity ? shared_bytes : capacity;
}

// ---- The run ---------------------------------------------------------------------------------

void allocate_shadows(Machine& m) {
    for (Buffer& buffer : m.buffers) {
        if (!m.checking || !buffer.writable) continue;
        void* cells = std::calloc(buffer.bytes + 1, sizeof(MemoryByte));
        buffer.shadow.reset(static_cast<MemoryByte*>(cells));
    }
}

void allocate_blocks(Machine& m) {
    const size_t bytes = m.shared.used_bytes() + 1;
    for (Cluster& cluster : m.clusters) {
        cluster.blocks = std::vector<Block>(m.cluster_size);
        for (Block& block : cluster.blocks) {
            if (!m.checking) continue;
            block.shadow.reset(static_cast<MemoryByte*>(std::calloc(bytes, sizeof(MemoryByte))));
        }
    }
}

void run(Machine& m, const LaunchRequest& request) {
    Arguments arguments(request.arguments, request.argument_count, m.buffers);
    m.arguments = arguments.pointers();
    const size_t blocks = m.together ? m.grid.x * m.grid.y * m.grid.z : m.cluster_size;
    const size_t threads = size_t{m.threads_per_block()} * blocks;
    m.clusters = std::vector<Cluster>(blocks / m.cluster_size);
    m.stacks = {request.stacks->begin, threads * stack_bytes};
    if (request.wgmma) m.registers = request.stacks->registers;
    m.latest_wgmma = &request.stacks->latest;
    allocate_blocks(m);
    allocate_shadows(m);
    {
        const FaultGuard guard;
        run_grid(m);
    }
    if (!m.failed) arguments.copy_back();
}

}  // namespace

}  // namespace simt

// Returns zero on success; otherwise `failure` says what went wrong.
extern "C" __attribute__((visibility("default"))) int simt_launch(const LaunchRequest* request,
                                                                  simt::Failure* failure) {
    simt::Machine m;
    m.grid = {request->grid[0], request->grid[1], request->grid[2]};
    m.block = {request->block[0], request->block[1], request->block[2]};
    m.cluster_size = request->cluster_size;
    m.checking = request->checking;
    m.together = request->together;
    m.shuffling = request->seed != 0;
    m.random.seed(request->seed);
    m.kernel = request->kernel;
    m.failure = failure;
    simt::locate_module(m, request->shared_bytes);
    if (request->foreign_count != 0) m.shared.foreign.resize(m.shared.dynamic_offset);
    for (size_t i = 0; i < request->foreign_count; ++i) {
        const size_t* place = request->foreign + 2 * i;
        std::fill_n(m.shared.foreign.begin() + static_cast<ptrdiff_t>(place[0]), place[1], true);
    }
    simt::machine = &m;
    simt::run(m, *request);
    simt::machine = nullptr;
    return m.failed;
}
