#pragma once
// Many keys in order: dealt to bins, and counted there.

#include <fusegen/topk/select.cuh>

namespace fusegen {

// Puts the `wanted` greatest of many keys in order, greatest first; all of them where there are fewer. A
// histogram says where the keys of each bin go, and inside a bin they are counted. A bin that is too full for
// that gets a histogram of its own; the keys of lower bins wait. There is room beside for all keys, unless
// none of the first bins is too full: then false, and the keys are where they were.
template <int kRoom, int kFullBin, typename Key, typename TallyType>
__device__ __forceinline__ bool sort_by_bins(
    Key* keys, Key* beside, int count, int wanted, TallyType& tally, int rank)
{
    typedef typename TallyType::Team Team;
    constexpr int kTeam = Team::kThreads, kBinBits = TallyType::kBinBits;
    constexpr int kBins = TallyType::kBins, kMyBins = TallyType::kMyBins;
    constexpr int kKeyBits = 8 * sizeof(Key);
    int first = 0, end = count;  // of the keys at hand: those before are in order, those behind are less
    while (first < min(wanted, count)) {
        int skip = 0;  // leading bits that are the same in all of them
        Key low, high;
        clear_bins(tally, rank);
        for (;; skip += 32) {
            unsigned least = 0xffffffffu, greatest = 0;
            for (int j = first + rank; j < end; j += kTeam) {
                const unsigned word = top_word(keys[j] << skip);
                least = min(least, word);
                greatest = max(greatest, word);
            }
            span_of_team(least, greatest, tally, rank);
            span_keys(least, greatest, low, high);
            if (least < greatest || skip == kKeyBits - 32) break;
            Team::sync();
        }
        const int shift = max(bit_length(high - low) - kBinBits, 0);
        const auto bin_of = [&](const Key& key) {
            return static_cast<unsigned>((high - (key << skip)) >> shift);
        };
        for (int j = first + rank; j < end; j += kTeam) atomicAdd(&tally.bins[bin_of(keys[j])], 1u);
        Team::sync();
        unsigned held[kMyBins], mine = 0;
        my_bins(held, tally, rank);
#pragma unroll
        for (int b = 0; b < kMyBins; ++b) mine += held[b];
        unsigned before = first + sum_before(mine, tally, rank), full = end, unused = 0;
#pragma unroll
        for (int b = 0; b < kMyBins; ++b) {
            if (kBins % kTeam == 0 || rank * kMyBins + b < kBins) tally.bins[rank * kMyBins + b] = before;
            if (held[b] > kFullBin && before < wanted) full = min(full, before);
            before += held[b];
        }
        span_of_team(full, unused, tally, rank);  // the first place in a bin that is too full
        if (full < end && count > kRoom) {
            Team::sync();
            return false;
        }
        const int last = full < end ? end : min(end, wanted + kFullBin);  // no other keys matter
        for (int j = first + rank; j < end; j += kTeam) {
            const Key key = keys[j];
            const int place = atomicAdd(&tally.bins[bin_of(key)], 1u);
            if (place < last) beside[place] = key;
        }
        Team::sync();  // a bin's number is now where it ends
        int next = end;
        if (full < end) next = tally.bins[bin_of(beside[full])];
        for (int j = first + rank; j < last; j += kTeam) {
            const Key key = beside[j];
            if (j >= full) {
                keys[j] = key;
                continue;
            }
            const unsigned bin = bin_of(key), stop = tally.bins[bin];
            const unsigned begin = bin > 0 ? tally.bins[bin - 1] : first;
            if (begin >= wanted) continue;
            keys[begin + better_in_bin<4>(beside, key, begin, stop)] = key;
        }
        Team::sync();
        first = full < end ? full : end;
        end = full < end ? next : count;
    }
    return true;
}

}  // namespace fusegen
