// Makes stacks and takes them back.
#include "stacks.h"

#include <sys/mman.h>

#include "mapping.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void simt_unmap_stacks(simt::Stacks* stacks) {
    if (stacks->begin != nullptr) munmap(stacks->begin, stacks->threads * simt::stack_bytes);
    if (stacks->registers != nullptr) {
        munmap(stacks->registers, stacks->threads * simt::stack_bytes / 4 * sizeof(simt::RegisterWord));
    }
    *stacks = {};
}

// Returns zero on success.
EXPORTED int simt_map_stacks(simt::Stacks* stacks, size_t threads) {
    using namespace simt;
    const size_t guard = page_bytes();
    Mapping all(threads * stack_bytes);
    bool made = all.begin() != nullptr;
    for (size_t i = 0; made && i < threads; ++i) {
        made = all.protect(i * stack_bytes + guard, stack_bytes - guard, PROT_READ | PROT_WRITE);
    }
    const size_t words = threads * stack_bytes / 4 * sizeof(RegisterWord);
    Mapping registers(words);
    if (!made || !registers.protect(0, words, PROT_READ | PROT_WRITE)) return 1;
    *stacks = {all.release(), reinterpret_cast<RegisterWord*>(registers.release()), threads, 0};
    return 0;
}
