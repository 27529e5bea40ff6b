// What the checks of global and of shared memory share.
#pragma once

#include <cstring>

#include "machine.h"

namespace simt {

inline const char* name_of(AccessKind kind) {
    switch (kind) {
        case AccessKind::read: case AccessKind::poll: return "read";
        case AccessKind::write: case AccessKind::post: return "write";
        case AccessKind::atomic: return "atomic access";
    }
    return "access";
}

// Judges the bytes of an access one by one; but where those behind the first remember the same, as
// bytes do that are always accessed together, the same holds for them.
template <class Judge>
void judge_each(MemoryByte* cells, size_t bytes, const Judge& judge) {
    if (bytes == 0) return;
    const MemoryByte before = cells[0];
    judge(0);
    for (size_t i = 1; i < bytes; ++i) {
        if (memcmp(&cells[i], &before, sizeof before) == 0) cells[i] = cells[0];
        else judge(i);
    }
}

}  // namespace simt
