#pragma once
// A threshold from keys that are not candidates.

#include <fusegen/topk/list.cuh>

namespace fusegen {

// Raises the threshold to the `wanted` best of some keys, or to another element of the same value: then the k best
// of the row reach it. Some are still to come.
template <typename List>
__device__ __noinline__ void raise(
    List& list, const typename List::Key* keys, int count, int wanted, typename List::Column end, int rank)
{
    typedef typename List::Key Key;
    List::Team::sync();
    Key threshold = select(keys, count, wanted, wanted + wanted / 8 + 16, list.tally, rank), last;
    span_keys(top_word(threshold), top_word(threshold), threshold, last);
    raise_to(list, threshold, end, rank);
}

}  // namespace fusegen
