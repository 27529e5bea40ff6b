#pragma once
// The K best candidates of rows over vectors, in device memory. Four lanes of a warp have a row, and its list.

#include <fusegen/tiles/fragment.cuh>
#include <fusegen/warp.cuh>

namespace fusegen {

// A row's list as its lanes know it: `count` candidates at `slots`; what does not beat the bar is none of the
// best. Behind the slots is room for the best in order.
template <typename KeysType, int kBest, int kRoom>
struct RowList {
    typedef KeysType Keys;
    typedef typename Keys::Key Key;
    static constexpr int kK = kBest, kSlots = kRoom, kWords = kSlots + kK;

    Key* slots;
    int count;
    Key bar;
    typename Keys::Value least;  // the bar's value

    __device__ __forceinline__ void begin(Key* memory)
    {
        slots = memory;
        count = 0;
        bar = Key{};
        least = Keys::Order::lowest();
    }
    // For a warp: takes in what its lanes offer. There is room.
    __device__ __forceinline__ void offer(bool offers, const Key& key)
    {
        offers = offers && key > bar;
        const unsigned row = __ballot_sync(0xffffffffu, offers) >> (threadIdx.x % 32 & ~3u) & 15u;
        if (offers) slots[count + __popc(row & ((1u << threadIdx.x % 4) - 1))] = key;
        count += __popc(row);
    }
    __device__ __forceinline__ Key* best() const { return slots + kSlots; }
};

// What the lane that is first of a row has, for all of the warp.
template <typename T>
__device__ __forceinline__ T of_row(T mine, int row) { return __shfl_sync(0xffffffffu, mine, row * kRowLanes); }
template <typename T>
__device__ __forceinline__ T* of_row(T* mine, int row)
{
    return reinterpret_cast<T*>(__shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(mine), row * kRowLanes));
}

template <typename Key>
__device__ __forceinline__ Key least_key_of_warp(Key mine)
{
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        Key other = mine;
        unsigned* const words = reinterpret_cast<unsigned*>(&other);
#pragma unroll
        for (unsigned i = 0; i < sizeof(Key) / 4; ++i) words[i] = __shfl_xor_sync(0xffffffffu, words[i], lane_mask);
        if (other < mine) mine = other;
    }
    return mine;
}

// For a warp: the k-th best key of `count`, at least as many.
__device__ __forceinline__ unsigned long long kth_key(const unsigned long long* slots, int count, unsigned k)
{
    typedef unsigned long long Key;
    Key low = 0, high = ~0ull;  // k or more reach low; fewer do, above high
    while (low < high) {
        const Key middle = high - (high - low) / 2;
        unsigned reach = 0;
        for (int i = threadIdx.x % 32; i < count; i += 32) reach += slots[i] >= middle;
        reach = sum_of_warp(reach);
        if (reach < k) {
            high = middle - 1;
            continue;
        }
        low = middle;
        if (reach == k) break;
    }
    Key least = ~0ull;
    for (int i = threadIdx.x % 32; i < count; i += 32)
        if (slots[i] >= low && slots[i] < least) least = slots[i];
    return least_key_of_warp(least);
}

// For a warp: the kK best of `count` candidates, at least as many, to the front. The least of them.
template <int kK, int kSlots>
__device__ __forceinline__ unsigned long long keep_best(unsigned long long* slots, int count)
{
    const unsigned long long least = kth_key(slots, count, kK);
    const int lane = threadIdx.x % 32;
    int kept = 0;
    for (int from = 0; from < count; from += 32) {
        const unsigned long long key = from + lane < count ? slots[from + lane] : 0;
        const bool stays = from + lane < count && key >= least && key != 0;  // 0 is no candidate's
        const unsigned all = __ballot_sync(0xffffffffu, stays);
        if (stays) slots[kept + __popc(all & ((1u << lane) - 1))] = key;
        kept += __popc(all);
        __syncwarp();
    }
    for (int i = kept + lane; i < kK; i += 32) slots[i] = 0;
    __syncwarp();
    return least;
}
template <int kK, int kSlots, typename Key>
__device__ __forceinline__ Key keep_best(Key* slots, int count)
{
    constexpr int kOwn = (kSlots + 31) / 32;
    const int lane = threadIdx.x % 32;
    Key own[kOwn];
    int places[kOwn];
    for (int i = 0; i < kOwn; ++i) {
        const int at = 32 * i + lane;
        own[i] = at < count ? slots[at] : Key{};
        places[i] = at < count ? 0 : kK;
        for (int other = 0; other < count; ++other) {
            const Key key = slots[other];
            if (at < count) places[i] += key > own[i] || (!(own[i] > key) && other < at);
        }
    }
    __syncwarp();
    for (int i = 0; i < kOwn; ++i)
        if (places[i] < kK) slots[places[i]] = own[i];
    __syncwarp();
    return slots[kK - 1];
}

// For a warp: cuts the lists of those of its eight rows that have no room for so many candidates more.
template <typename List>
__device__ __forceinline__ void make_room(List& list, const typename List::Keys& keys, int more)
{
    const unsigned full = __ballot_sync(0xffffffffu, list.count + more > List::kSlots);
    if (full == 0) return;
    __syncwarp();
#pragma unroll 1
    for (int row = 0; row < 8; ++row) {
        if (!(full >> row * kRowLanes & 1u)) continue;
        const typename List::Key bar =
            keep_best<List::kK, List::kSlots>(of_row(list.slots, row), of_row(list.count, row));
        if (first_row_of_lane() != row) continue;
        list.count = List::kK;
        list.bar = bar;
        list.least = keys.value(bar);
    }
    __syncwarp();
}

// For a warp: of each of its eight rows kK keys; those of no candidate are 0.
template <typename List>
__device__ __forceinline__ void complete(List& list, const typename List::Keys& keys)
{
    make_room(list, keys, List::kSlots - List::kK);
    if (list.slots != nullptr)
        for (int i = list.count + threadIdx.x % kRowLanes; i < List::kK; i += kRowLanes)
            list.slots[i] = typename List::Key{};
    list.count = List::kK;
    __syncwarp();
}

// For a warp: takes in what other blocks found of its eight rows, kK keys each, `apart` keys from one block's to the
// next one's; `mine` is this block's number.
template <typename List>
__device__ __forceinline__ void gather(
    List& list, const typename List::Keys& keys, const typename List::Key* first, long long apart, int blocks, int mine)
{
#pragma unroll 1
    for (int row = 0; row < 8; ++row) {
        typename List::Key* const slots = of_row(list.slots, row);
        const typename List::Key* const others = of_row(const_cast<typename List::Key*>(first), row);
        if (slots == nullptr) continue;
        int count = List::kK;
        for (int block = 0; block < blocks; ++block) {
            if (block == mine) continue;
            for (int i = threadIdx.x % 32; i < List::kK; i += 32) slots[count + i] = others[block * apart + i];
            __syncwarp();
            keep_best<List::kK, List::kSlots>(slots, count + List::kK);
            __syncwarp();
        }
    }
}

// For a warp: the kK candidates of each of its eight rows in order, the best first.
template <typename List>
__device__ __forceinline__ void put_in_order(List& list)
{
#pragma unroll 1
    for (int row = 0; row < 8; ++row) {
        typename List::Key* const slots = of_row(list.slots, row);
        if (slots == nullptr) continue;
        for (int i = threadIdx.x % 32; i < List::kK; i += 32) {
            const typename List::Key key = slots[i];
            int place = 0;
            for (int other = 0; other < List::kK; ++other) place += slots[other] > key;
            slots[List::kSlots + place] = key;
        }
    }
    __syncwarp();
}

// A step that visits all of so many tiles, far from one to the next: any of the first few are a fair sample of
// columns in whatever order they come.
__device__ __forceinline__ long long spread_step(long long tiles)
{
    for (long long step = tiles * 5 / 8 | 1;; step += 2) {
        long long a = tiles, b = step;
        while (b) {
            const long long rest = a % b;
            a = b;
            b = rest;
        }
        if (a <= 1) return tiles > 1 ? step % tiles : 0;
    }
}

}  // namespace fusegen
