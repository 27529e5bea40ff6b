#pragma once
// How ranks meet whose GPUs write to one another's memory: each puts its states of a group of rows into a box of
// every rank's, says so, and waits a while until all others have; all states then lie in its own memory.
//
// Every rank has a place, which the others write to, the same bytes on each:
//     gone    ranks words                  not 0: that rank has given up
//     flags   2 · groups · ranks words     [turn % 2][group][rank]: the turn and tag of what that rank has sent
//     boxes   2 · ranks · room bytes       [turn % 2][rank]: that rank's states
//
// A turn is a launch of every rank; whoever launches first waits for the others. A rank says turn t + 1 when its
// launch of turn t is over, and it is in turn t + 2 only once all have said t + 1. So boxes and flags of turn t,
// which turn t + 2 uses again, are written by nobody while somebody reads them, and nothing is ever reset. A rank that
// has waited for too long knows no more where the others are: it sends nothing and waits for nobody from then on.
// Blocks send all their groups before they wait for any: where all blocks of a launch are on the device, none waits
// for what comes behind itself.

namespace fusegen {

// Words of a rank's own that its launches leave to one another: how many turns are over, and whether this rank has
// given up. A launch counts for kTurn, whatever its blocks: none waits for another to end the turn, and as long as
// one of them runs the turn is the same.
constexpr int kTurnsOver = 0, kGivenUp = 1;
constexpr unsigned long long kTurn = 1ull << 24;

// Words that the host reads: a rank was in another call; a rank was lost.
constexpr int kOtherCall = 0, kLostRank = 1;

constexpr int kPlaceBoundary = 256;  // bytes
constexpr int kLooks = 64;  // at a flag, between looks at what else may have happened

__device__ __forceinline__ unsigned long long acquired(const unsigned long long* place)
{
    unsigned long long found;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(found) : "l"(place) : "memory");
    return found;
}

__device__ __forceinline__ void released(unsigned long long* place, unsigned long long value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(place), "l"(value) : "memory");
}

__device__ __forceinline__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

// What came of waiting.
enum class Came { there, other, lost };

template <int kRanks>
struct Meeting {
    unsigned char* places[kRanks];  // of all ranks
    unsigned char* own;  // this rank's
    unsigned long long* control;  // this rank's
    unsigned long long* told;  // the host's
    long long rank, groups, room, tag, patience;  // nanoseconds
    unsigned turn;
    unsigned long long until;
    bool alone;  // has this rank given up in an earlier launch? Others may be a turn behind then

    // Turn and tag in a word.
    __device__ __forceinline__ unsigned long long said() const
    {
        return static_cast<unsigned long long>(tag) << 32 | turn;
    }
    static constexpr long long kFlagsAt = (8 * kRanks + kPlaceBoundary - 1) / kPlaceBoundary * kPlaceBoundary;
    __device__ __forceinline__ unsigned long long* flag(unsigned char* place, long long group, long long of) const
    {
        return reinterpret_cast<unsigned long long*>(place + kFlagsAt) + (turn % 2 * groups + group) * kRanks + of;
    }
    __device__ __forceinline__ unsigned char* box(unsigned char* place, long long of) const
    {
        const long long flags = 16 * groups * kRanks;
        const long long at = kFlagsAt + (flags + kPlaceBoundary - 1) / kPlaceBoundary * kPlaceBoundary;
        return place + at + (turn % 2 * kRanks + of) * room;
    }

    // All threads of a block call these.

    __device__ __forceinline__ void begin()
    {
        turn = static_cast<unsigned>(control[kTurnsOver] / kTurn) + 1;
        until = nanoseconds() + patience;
        alone = control[kGivenUp] != 0;
    }

    // Bytes of this rank's states, which begin at a multiple of 16, to all ranks.
    __device__ __forceinline__ void send(const unsigned char* states, long long group, long long first, long long end)
    {
        if (alone) return;
        long long at = first + 16 * threadIdx.x;
        for (; at + 16 <= end; at += 16 * blockDim.x) {
            const ulonglong2 words = *reinterpret_cast<const ulonglong2*>(states + at);
#pragma unroll
            for (int other = 0; other < kRanks; ++other)
                *reinterpret_cast<ulonglong2*>(box(places[other], rank) + at) = words;
        }
        if (at < end) {  // 8 of them
            const unsigned long long word = *reinterpret_cast<const unsigned long long*>(states + at);
#pragma unroll
            for (int other = 0; other < kRanks; ++other)
                *reinterpret_cast<unsigned long long*>(box(places[other], rank) + at) = word;
        }
        __syncthreads();
#pragma unroll
        for (int other = 0; other < kRanks; ++other)
            if (threadIdx.x == other % blockDim.x) released(flag(places[other], group, rank), said());
    }

    // Is what all ranks have of a group in this rank's boxes? Where it is not, the host and the others are told.
    __device__ __forceinline__ bool all_there(long long group)
    {
        Came came = Came::there;
        for (int of = threadIdx.x; of < kRanks && came == Came::there; of += blockDim.x) came = wait(group, of);
        const bool other = __syncthreads_or(came == Came::other);
        const bool lost = __syncthreads_or(came == Came::lost);
        if (other && threadIdx.x == 0) released(told + kOtherCall, 1);
        if (lost) give_up();
        return !other && !lost;
    }

    __device__ __forceinline__ Came wait(long long group, int of) const
    {
        if (alone) return Came::lost;
        for (int looks = 1;; ++looks) {
            const unsigned long long found = acquired(flag(own, group, of));
            if (static_cast<unsigned>(found) == turn) return found == said() ? Came::there : Came::other;
            if (looks % kLooks) continue;
            const unsigned long long first = acquired(flag(own, 0, of));  // calls of fewer groups say no others
            if (static_cast<unsigned>(first) == turn && first != said()) return Came::other;
            if (acquired(reinterpret_cast<const unsigned long long*>(own) + of) || nanoseconds() > until)
                return Came::lost;
        }
    }

    // What ranks have of a group, from bytes `first` to `end`, next to one another: `apart` bytes from one to the next.
    __device__ __forceinline__ void take(unsigned char* to, long long apart, long long first, long long end) const
    {
        const unsigned char* const from = box(own, 0) + first;
#pragma unroll 2
        for (long long at = 8 * threadIdx.x; at < end - first; at += 8 * blockDim.x) {
#pragma unroll
            for (int of = 0; of < kRanks; ++of)
                *reinterpret_cast<unsigned long long*>(to + of * apart + at) =
                    *reinterpret_cast<const unsigned long long*>(from + of * room + at);
        }
        __syncthreads();
    }

    __device__ __forceinline__ void give_up()
    {
#pragma unroll
        for (int other = 0; other < kRanks; ++other)
            if (threadIdx.x == other % blockDim.x)
                released(reinterpret_cast<unsigned long long*>(places[other]) + rank, 1);
        if (threadIdx.x != 0) return;
        released(told + kLostRank, 1);
        released(control + kGivenUp, 1);
    }

    __device__ __forceinline__ void end(unsigned block, unsigned blocks)
    {
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(control + kTurnsOver, block == 0 ? kTurn - (blocks - 1) : 1);
    }
};

}  // namespace fusegen
