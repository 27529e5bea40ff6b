// Pages of new memory.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstdint>

namespace fusegen {

// New memory costs a fault for each of its pages when it is first written: for a large result more
// than the work. NumPy asks for large pages from this size on, torch's allocator does not.
constexpr int64_t kLargeBytes = 1 << 22;

inline void in_large_pages(char* from, int64_t n_bytes)
{
#ifdef MADV_HUGEPAGE
    if (n_bytes < kLargeBytes) return;
    const uintptr_t page = sysconf(_SC_PAGESIZE), at = reinterpret_cast<uintptr_t>(from);
    const uintptr_t begin = (at + page - 1) & -page, end = (at + n_bytes) & -page;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: may be refused
#else
    (void)from, (void)n_bytes;
#endif
}

}  // namespace fusegen
