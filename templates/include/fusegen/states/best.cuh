#pragma once
// K-best lists in the states of a row, each best first, become the K best of them all.

#include <fusegen/math/above.cuh>
#include <fusegen/states/field.cuh>

namespace fusegen {

// One list of every state of a row. States are `apart` bytes apart; values and columns of the list begin at
// so many bytes of a state. A column of -1 stands where there is no element.
template <typename ValueType, int kLength, int kValues, int kColumns>
struct ListOfStates {
    typedef ValueType Value;
    static constexpr int kK = kLength;

    const unsigned char* states;
    long long apart, count;

    __device__ __forceinline__ Value value(long long state, int entry) const
    {
        return field<Value>(states + state * apart, kValues + entry * static_cast<int>(sizeof(Value)));
    }
    __device__ __forceinline__ long long column(long long state, int entry) const
    {
        return field<long long>(states + state * apart, kColumns + entry * 8);
    }

    // Entries of a state's list for which all before them hold, too: how many.
    template <typename Holds>
    __device__ __forceinline__ int first(const Holds& holds) const
    {
        int low = 0, high = kK;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (holds(middle))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    // Entries of a state's list that there are.
    __device__ __forceinline__ int held(long long state) const
    {
        return first([&](int entry) { return column(state, entry) >= 0; });
    }

    // Entries of another state's list that are ahead of an entry of `state`. Equals stand as the states do.
    __device__ __forceinline__ int ahead(long long other, long long state, Value mine, long long my_column) const
    {
        return first([&](int entry) {
            const Value theirs = value(other, entry);
            const long long their_column = column(other, entry);
            if (their_column < 0) return false;
            if (above(theirs, their_column, mine, my_column)) return true;
            return other < state && !above(mine, my_column, theirs, their_column);
        });
    }
};

// Every entry finds its place by counting those that are ahead of it. Nothing waits for anything.
template <int kTeam, int kValues, int kColumns, typename List>
__device__ __forceinline__ void store_best(const List& list, unsigned char* merged, int rank)
{
    typedef typename List::Value Value;
    const auto store = [&](long long place, Value value, long long column) {
        set_field(merged, kValues + static_cast<int>(place * sizeof(Value)), value);
        set_field(merged, kColumns + static_cast<int>(place * 8), column);
    };
    for (long long each = rank; each < list.count * List::kK; each += kTeam) {
        const long long state = each / List::kK;
        const int entry = static_cast<int>(each % List::kK);
        const Value mine = list.value(state, entry);
        const long long column = list.column(state, entry);
        if (column < 0) continue;
        long long place = entry;
        for (long long other = 0; other < list.count && place < List::kK; ++other)
            if (other != state) place += list.ahead(other, state, mine, column);
        if (place < List::kK) store(place, mine, column);
    }
    long long held = 0;
    for (long long state = 0; state < list.count && held < List::kK; ++state) held += list.held(state);
    for (int place = rank; place < List::kK; place += kTeam)
        if (place >= held) store(place, Value{}, -1);
}

}  // namespace fusegen
