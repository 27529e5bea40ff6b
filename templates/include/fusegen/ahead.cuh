#pragma once
// A row that goes by, each chunk on its way while the one before it is worked on: for few warps, which cannot wait for
// memory in turns.

#include <fusegen/load.cuh>

namespace fusegen {

// As for_chunks of <fusegen/walk.cuh>. `ask` fills what comes next, which `take` makes what `visit` works on.
template <typename Team, int kVectors, typename Column, typename Ask, typename Take, typename Visit>
__device__ __forceinline__ void for_chunks_ahead(
    Column begin, Column end, int rank, const Ask& ask, const Take& take, const Visit& visit)
{
    const int apart = Team::threads();
    Column at = begin + rank;
    int live = live_vectors<Team, kVectors>(at, end);
    ask(at, live);
    while (live == kVectors) {
        const Column here = at;
        at += kVectors * apart;
        live = live_vectors<Team, kVectors>(at, end);
        take();
        ask(at, live);
        visit(here, kVectors);
    }
    take();
    if (live > 0) visit(at, live);
}

}  // namespace fusegen
