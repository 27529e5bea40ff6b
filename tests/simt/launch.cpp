// A launch from the host's side: places the arguments, runs the grid, copies the results back.
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fault_guard.h"
#include "machine.h"

// The dynamic shared array, at the end of the thread-local segment: the build adds it as assembly,
// under every name that the kernels declare for it.
extern "C" thread_local char simt_dynamic_shared[];

// Shared with executor.py, which mirrors these structures.
enum class ArgumentKind : uint32_t { value, input, output, initialised_output };

struct Argument {
    void* data;
    size_t bytes;
    ArgumentKind kind;
};

struct LaunchRequest {
    void (*kernel)(void**);
    const Argument* arguments;
    size_t argument_count;
    unsigned grid[3];
    unsigned block[3];
    unsigned cluster_size;
    int checking;
    int together;
    size_t shared_bytes;
    uint64_t seed;
    const size_t* foreign;  // offset and bytes of each static shared array of other sources
    size_t foreign_count;
};

namespace simt {

namespace {

// ---- Memory ------------------------------------------------------------------------------------

class Mapping {
public:
    explicit Mapping(size_t bytes) : bytes_(bytes) {
        constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* pages = mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
        begin_ = pages == MAP_FAILED ? nullptr : static_cast<char*>(pages);
    }
    Mapping(Mapping&& other) : begin_(other.begin_), bytes_(other.bytes_) {
        other.begin_ = nullptr;
    }
    ~Mapping() {
        if (begin_ != nullptr) munmap(begin_, bytes_);
    }
    bool protect(size_t offset, size_t bytes, int protection) const {
        return begin_ != nullptr && mprotect(begin_ + offset, bytes, protection) == 0;
    }
    char* begin() const { return begin_; }

private:
    char* begin_;
    size_t bytes_;
};

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// A copy of a host buffer that ends, but for alignment, where an inaccessible zone begins.  It
// keeps the host address modulo 16, so that a kernel sees the alignment its caller sees.
class GuardedCopy {
public:
    GuardedCopy(const void* host, size_t bytes)
        : data_bytes_((bytes + 16 + page_bytes() - 1) / page_bytes() * page_bytes()),
          mapping_(data_bytes_ + 2 * guard_bytes) {
        if (!mapping_.protect(guard_bytes, data_bytes_, PROT_READ | PROT_WRITE)) return;
        begin_ = mapping_.begin() + guard_bytes + data_bytes_ - bytes;
        begin_ -= (reinterpret_cast<uintptr_t>(begin_) - reinterpret_cast<uintptr_t>(host)) % 16;
        memcpy(begin_, host, bytes);
    }
    void make_read_only() const { mapping_.protect(guard_bytes, data_bytes_, PROT_READ); }
    char* begin() const { return begin_; }

private:
    static constexpr size_t guard_bytes = 1 << 20;
    size_t data_bytes_;
    Mapping mapping_;
    char* begin_ = nullptr;
};

// All stacks, each above an inaccessible page.
Mapping map_stacks(size_t count) {
    Mapping stacks(count * stack_bytes);
    const size_t guard = page_bytes();
    for (size_t i = 0; i < count; ++i) {
        stacks.protect(i * stack_bytes + guard, stack_bytes - guard, PROT_READ | PROT_WRITE);
    }
    return stacks;
}

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

// ---- Arguments ---------------------------------------------------------------------------------

class Arguments {
public:
    Arguments(const LaunchRequest& request, std::vector<Buffer>& buffers) : buffers_(buffers) {
        for (size_t i = 0; i < request.argument_count; ++i) join(request.arguments[i]);
        devices_.reserve(request.argument_count);  // the kernel's pointers are read from here
        buffers_.reserve(request.argument_count);
        for (size_t i = 0; i < request.argument_count; ++i) add(request.arguments[i], i);
        for (size_t i = 0; i < copies_.size(); ++i) {
            if (!buffers_[i].writable) copies_[i].make_read_only();
        }
    }

    void** pointers() { return pointers_.data(); }

    void copy_back() const {
        for (const Buffer& buffer : buffers_) {
            if (buffer.writable) memcpy(buffer.host, buffer.device, buffer.bytes);
        }
    }

private:
    // The bytes of arrays that share some, as fields of one array of records do.
    void join(const Argument& argument) {
        if (argument.kind == ArgumentKind::value) return;
        char* begin = static_cast<char*>(argument.data);
        AddressRange whole = {begin, argument.bytes};
        for (size_t i = 0; i < ranges_.size();) {
            const AddressRange& other = ranges_[i];
            if (other.begin < whole.begin + whole.bytes && whole.begin < other.begin + other.bytes) {
                char* first = std::min(other.begin, whole.begin);
                char* end = std::max(other.begin + other.bytes, whole.begin + whole.bytes);
                whole = {first, static_cast<size_t>(end - first)};
                ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(i));
                i = 0;
            } else {
                ++i;
            }
        }
        ranges_.push_back(whole);
    }

    AddressRange range_of(const Argument& argument) const {
        char* begin = static_cast<char*>(argument.data);
        for (const AddressRange& range : ranges_) {
            const size_t offset = static_cast<size_t>(begin - range.begin);
            if (begin >= range.begin && offset + argument.bytes <= range.bytes) return range;
        }
        return {begin, argument.bytes};
    }

    void add(const Argument& argument, size_t index) {
        if (argument.kind == ArgumentKind::value) {
            pointers_.push_back(argument.data);
            return;
        }
        Buffer& buffer = find_or_place(argument, index);
        buffer.writable |= argument.kind != ArgumentKind::input;
        if (argument.kind != ArgumentKind::output) buffer.initialised.clear();
        const ptrdiff_t offset = static_cast<char*>(argument.data) - static_cast<char*>(buffer.host);
        devices_.push_back(static_cast<char*>(buffer.device) + offset);
        pointers_.push_back(&devices_.back());
    }

    // An array that is passed twice is one buffer, as in an in-place operation.
    Buffer& find_or_place(const Argument& argument, size_t index) {
        const AddressRange range = range_of(argument);
        for (Buffer& buffer : buffers_) {
            if (buffer.host == range.begin && buffer.bytes == range.bytes) return buffer;
        }
        copies_.emplace_back(range.begin, range.bytes);
        return buffers_.emplace_back(Buffer{
            .argument = static_cast<unsigned>(index),
            .host = range.begin,
            .device = copies_.back().begin(),
            .bytes = range.bytes,
            .writable = false,
            .initialised = std::vector<bool>(range.bytes, false),
            .shadow = nullptr,
        });
    }

    std::vector<Buffer>& buffers_;
    std::vector<GuardedCopy> copies_;
    std::vector<AddressRange> ranges_;
    std::vector<void*> devices_;
    std::vector<void*> pointers_;
};

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
    Arguments arguments(request, m.buffers);
    m.arguments = arguments.pointers();
    const size_t blocks = m.together ? m.grid.x * m.grid.y * m.grid.z : m.cluster_size;
    const size_t threads = size_t{m.threads_per_block()} * blocks;
    m.clusters = std::vector<Cluster>(blocks / m.cluster_size);
    const Mapping stacks = map_stacks(threads);
    m.stacks = {stacks.begin(), threads * stack_bytes};
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
