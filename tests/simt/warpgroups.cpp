// Products of four warps (wgmma): what they read and write, and when that may be touched.
//
// A warp's part is computed when its lanes have met.  Until they have waited for the group, their
// registers are the product's; and its reads of shared memory are known to nobody.
#include <algorithm>
#include <cstring>

#include "fragments.h"
#include "machine.h"

namespace simt {

namespace {

unsigned warp_in_group(const Thread& thread) { return thread.index / warp_width % 4; }

Warpgroup& own_group() {
    const Thread& thread = *machine->current;
    return thread.block->warpgroups[thread.index / (4 * warp_width)];
}

// ---- Registers ---------------------------------------------------------------------------------

RegisterWord* word_at(const void* place) {
    const AddressRange& stacks = machine->stacks;
    if (machine->registers == nullptr || !stacks.contains(place)) return nullptr;
    return machine->registers + (static_cast<const char*>(place) - stacks.begin) / 4;
}

// The product of a group works on a register from now on.
void take_register(const void* place, const Thread& thread, uint32_t group, const char* name,
                   unsigned index, int line) {
    RegisterWord* word = word_at(place);
    if (word == nullptr) return;
    if (word->touched > thread.wgmma_fences) {
        fail(line, "wgmma: lane %u has touched %s[%u] since the last wgmma.fence", thread.lane(),
             name, index);
    }
    word->group = group;
}

// Threads that start from now on count from here: whatever older words say is past for them.
void let_pass(uint32_t number) { *machine->latest_wgmma = std::max(*machine->latest_wgmma, number); }

// ---- Matrices in shared memory -----------------------------------------------------------------

struct Descriptor {
    uint64_t start, chunks_apart, apart;
};

Descriptor read_descriptor(uint64_t bits, const char* name, int line) {
    const auto field = [bits](int shift) { return (bits >> shift & 0x3fff) << 4; };
    const Descriptor d = {.start = field(0), .chunks_apart = field(16), .apart = field(32)};
    if (bits >> 62 != 1) {
        fail(line, "wgmma: the matrix descriptor of %s is %#llx: only those of matrices with the "
             "128-byte swizzle are known here", name, static_cast<unsigned long long>(bits));
    }
    if (d.start >> 7 & 7 || bits >> 49 & 7) {
        fail(line, "misaligned access: wgmma: the matrix descriptor of %s begins at %#llx: the "
             "128-byte swizzle needs an alignment of 1024 bytes (and steps below 128)", name,
             static_cast<unsigned long long>(d.start));
    }
    if (d.apart % 1024) {
        fail(line, "misaligned access: wgmma: rows of %s are %llu bytes apart, eight by eight: the "
             "128-byte swizzle needs a multiple of 1024", name,
             static_cast<unsigned long long>(d.apart));
    }
    return d;
}

// Reads 16 bytes of a matrix for the group that is next to be committed.
void read_chunk(uint64_t address, char* to, int line) {
    const Warpgroup& group = own_group();
    const uint32_t clock = group.committed[warp_in_group(*machine->current)] + 1;
    const void* from = locate(Space::shared_cta, swizzle_128(address), line);
    if (machine->checking) check_engine_read(from, 16, group.engine, clock, Site{.line = line});
    memcpy(to, from, 16);
}

float element(Operand operand, const char* from) {
    uint32_t bits = 0;
    memcpy(&bits, from, bytes_of(operand));
    return decode(operand, bits);
}

// Rows `first` and on of a matrix whose rows lie along the inner index.
void read_rows(Operand operand, uint64_t descriptor, const char* name, unsigned first,
               unsigned count, Inner* rows, int line) {
    const Descriptor d = read_descriptor(descriptor, name, line);
    for (unsigned r = 0; r < count; ++r) {
        const unsigned row = first + r;
        char bytes[32];
        for (unsigned half = 0; half < 2; ++half) {
            const uint64_t address = d.start + row / 8 * d.apart + row % 8 * 128 + 16 * half;
            read_chunk(address, bytes + 16 * half, line);
        }
        for (unsigned k = 0; k < inner_extent(operand); ++k) {
            rows[r][k] = element(operand, bytes + k * bytes_of(operand));
        }
    }
}

// The same of one whose rows lie across it: rows of 64 elements, chunk by chunk.
void read_transposed(Operand operand, uint64_t descriptor, unsigned count, Inner* rows, int line) {
    const Descriptor d = read_descriptor(descriptor, "b", line);
    if (count > 64 && d.chunks_apart % 1024) {
        fail(line, "misaligned access: wgmma: chunks of b are %llu bytes apart: the 128-byte "
             "swizzle needs a multiple of 1024", static_cast<unsigned long long>(d.chunks_apart));
    }
    for (unsigned k = 0; k < inner_extent(operand); ++k) {
        for (unsigned n = 0; n < count; n += 8) {
            char bytes[16];
            const uint64_t row = d.start + k / 8 * d.apart + k % 8 * 128;
            read_chunk(row + n / 64 * d.chunks_apart + n % 64 * 2, bytes, line);
            for (unsigned i = 0; i < 8; ++i) rows[n + i][k] = element(operand, bytes + 2 * i);
        }
    }
}

// ---- Products ----------------------------------------------------------------------------------

struct LaneProduct {
    const Wgmma* product;
    std::initializer_list<float*> sums;
};

bool same(const Wgmma& a, const Wgmma& b) {
    const bool shapes = a.operand == b.operand && a.n == b.n && a.b_transposed == b.b_transposed;
    return shapes && a.add == b.add && a.a == b.a && a.b == b.b;
}

// All lanes of all four warps issue the same products, each warp in its own time.
void check_same_products(const LaneValues& values, int line) {
    const Wgmma& first = *brought_by<LaneProduct>(values, 0).product;
    for (unsigned lane = 1; lane < warp_width; ++lane) {
        if (!same(first, *brought_by<LaneProduct>(values, lane).product)) {
            fail(line, "wgmma: lanes 0 and %u give different descriptors or flags", lane);
        }
    }
    Warpgroup& group = own_group();
    uint32_t& issued = group.issued[warp_in_group(*machine->current)];
    const uint32_t place = issued++ - group.before;
    if (place == group.products.size()) {
        group.products.push_back(first);
    } else if (!same(first, group.products[place])) {
        fail(line, "wgmma: the warps of a warpgroup give different descriptors or flags");
    }
    while (*std::min_element(group.issued.begin(), group.issued.end()) > group.before) {
        group.products.pop_front();
        group.before += 1;
    }
}

void take_registers(const LaneValues& values, uint32_t group, int line) {
    if (!machine->checking) return;
    const Thread* lanes = machine->current - machine->current->lane();
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        const auto& [product, sums] = brought_by<LaneProduct>(values, lane);
        if (lanes[lane].wgmma_fences == lanes[lane].wgmma_start) fail(line, "wgmma: no wgmma.fence stands before it");
        for (unsigned i = 0; i < sums.size(); ++i) {
            take_register(sums.begin()[i], lanes[lane], group, "sums", i, line);
        }
        for (unsigned i = 0; i < 4 && product->words[i] != nullptr; ++i) {
            take_register(product->words[i], lanes[lane], group, "a", i, line);
        }
    }
}

void multiply_rows(const LaneValues& values, int line) {
    const Wgmma& first = *brought_by<LaneProduct>(values, 0).product;
    const unsigned warp = warp_in_group(*machine->current);
    check_same_products(values, line);
    own_group().open[warp] = true;
    take_registers(values, own_group().committed[warp] + 1, line);
    let_pass(own_group().committed[warp] + 1);
    std::array<Inner, 16> a;
    std::vector<Inner> b(first.n);
    if (first.words[0] == nullptr) {
        read_rows(first.operand, first.a, "a", 16 * warp, 16, a.data(), line);
    }
    if (first.b_transposed) read_transposed(first.operand, first.b, first.n, b.data(), line);
    else read_rows(first.operand, first.b, "b", 0, first.n, b.data(), line);
    for (unsigned lane = 0; lane < warp_width && first.words[0] != nullptr; ++lane) {
        const auto& words = brought_by<LaneProduct>(values, lane).product->words;
        const uint32_t own[] = {*words[0], *words[1], *words[2], *words[3]};
        place_a(a, first.operand, lane, own);
    }
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        float* const* sums = brought_by<LaneProduct>(values, lane).sums.begin();
        for (unsigned i = 0; i < first.n / 2; ++i) {
            const Inner& row = a[lane / 4 + 8 * (i >> 1 & 1)];
            const Inner& column = b[8 * (i / 4) + lane % 4 * 2 + (i & 1)];
            *sums[i] = dot(row, column, inner_extent(first.operand), first.add ? *sums[i] : 0.f);
        }
    }
}

void commit_all(const LaneValues&, int) {
    own_group().committed[warp_in_group(*machine->current)] += 1;
    own_group().open[warp_in_group(*machine->current)] = false;
    machine->changes += 1;
}

// What the groups before `done` have read may be written from now on by whoever hears of it.
void finish_groups(const LaneValues& values, int) {
    const uint32_t done = static_cast<uint32_t>(values[0]);
    auto read = std::make_shared<Knowledge>();
    read->clocks[engine_key(own_group().engine)].fill(done);
    Thread* lanes = machine->current - machine->current->lane();
    const SharedKnowledge acquired = join(lanes[0].acquired, read);  // all lanes know the same here
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        lanes[lane].acquired = acquired;
        lanes[lane].wgmma_groups_done = std::max(lanes[lane].wgmma_groups_done, done);
    }
}

void nothing_to_do(const LaneValues&, int) {}

}  // namespace

void check_registers(const char* address, size_t bytes, Site site) {
    const Thread& thread = *machine->current;
    const uint32_t done = thread.wgmma_groups_done, touched = thread.wgmma_fences + 1;
    if (!machine->stacks.contains(address + bytes - 1)) return;
    const size_t offset = address - machine->stacks.begin;
    RegisterWord* const end = machine->registers + (offset + bytes - 1) / 4;
    for (RegisterWord* word = machine->registers + offset / 4; word <= end; ++word) {
        if (word->group > done) [[unlikely]] {
            const Warpgroup& group = own_group();
            const bool committed = word->group <= group.committed[warp_in_group(thread)];
            fail_at(site, "touches a register of a wgmma under way: %s", committed ?
                    "it has not waited for its group" : "its group has not been committed");
        }
        word->touched = touched;
    }
}

void wgmma_fence(int line) {
    meet_warp_with(0, nothing_to_do, line);
    let_pass(++machine->current->wgmma_fences + 1);
}

void wgmma(const Wgmma& product, std::initializer_list<float*> sums, int line) {
    const Block& block = *machine->current->block;
    if (block.threads.size() % (4 * warp_width)) {
        fail(line, "wgmma: a block of %zu threads is not made of warpgroups", block.threads.size());
    }
    const LaneProduct brought = {&product, sums};
    meet_warp(&brought, multiply_rows, line);
}

void wgmma_commit(int line) { meet_warp_with(0, commit_all, line); }

// Whoever waits waits for all four warps: one of its threads may tell others that all have read.
void wgmma_wait(uint32_t groups_left, int line) {
    meet_warp_with(groups_left, nothing_to_do, line);
    Thread& thread = *machine->current;
    const auto& committed = own_group().committed;
    const uint32_t groups = committed[warp_in_group(thread)];
    const uint32_t done = groups - std::min(groups - thread.wgmma_start, groups_left);
    while (*std::min_element(committed.begin(), committed.end()) < done) {
        thread.waits_for = {Waiting::warpgroup, done - thread.wgmma_start, 0};
        yield(line);
    }
    meet_warp_with(done, finish_groups, line);
}

void check_wgmma_done(const Thread& thread) {
    const Warpgroup& group = thread.block->warpgroups[thread.index / (4 * warp_width)];
    const unsigned warp = warp_in_group(thread);
    if (group.open[warp] || thread.wgmma_groups_done < group.committed[warp]) {
        fail(0, "exits without waiting for its wgmma");
    }
}

}  // namespace simt
