#pragma once
// Full rows of results to memory: through the caches, or past them by non-temporal stores.

#include <cstdint>
#include <cstring>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// Every lane of a vector is a column of the chunk; results may go past the caches.
struct result_lanes : all_lanes {
    explicit result_lanes(bool goes_past) : past(goes_past) {}
    const bool past;
};

#ifdef __SSE2__
#if defined(__AVX512F__)
constexpr size_t widest_store = 64;
#elif defined(__AVX__)
constexpr size_t widest_store = 32;
#else
constexpr size_t widest_store = 16;
#endif

// Whole vectors of the processor's past the caches. Vectors of wide elements are several.
template <typename T>
inline void put_past(void* to, T v)
{
    constexpr size_t part = sizeof v < widest_store ? sizeof v : widest_store;
    typedef typename pack<long long, part / 8>::type words;
    words parts[sizeof v / part];
    std::memcpy(parts, &v, sizeof v);
    words* at = static_cast<words*>(to);
    for (const words& one : parts) {
#ifdef __clang__
        __builtin_nontemporal_store(one, at++);
#else
        if constexpr (part == 16)
            __builtin_ia32_movntdq(at++, one);
#ifdef __AVX__
        if constexpr (part == 32)
            __builtin_ia32_movntdq256(at++, one);
#endif
#ifdef __AVX512F__
        if constexpr (part == 64)
            __builtin_ia32_movntdq512(at++, one);
#endif
#endif
    }
}
#endif

template <typename T, typename E>
inline void put(E* to, T v, result_lanes live)
{
#ifdef __SSE2__
    if constexpr (sizeof v % 16 == 0)
        if (live.past)
            return put_past(to, v);
#endif
    put(to, v, all_lanes());
}

// Asks for the line in which a row's results end and the next row's begin: where they go past the caches,
// it is what stores wait for.
template <typename E>
inline void expect_end(E* to, bool past, int64_t n_cols)
{
    if (past)
        __builtin_prefetch(to + n_cols - 1, 1);
}

constexpr int64_t line_bytes = 64;

template <typename E>
inline uint64_t beyond_line(const E* at) { return reinterpret_cast<uintptr_t>(at) % line_bytes; }

// Asks for the line of which one chunk stores the first part and the next chunk the rest, likewise.
template <typename E>
inline void expect_part(E* at, bool past)
{
    if (past && beyond_line(at) != 0)
        __builtin_prefetch(at, 1);
}

// Where a chunk of results ends that go past the caches, and no state hangs on where: before a line, but for
// chunks shorter than one.
template <typename E>
inline int64_t whole_lines(const E* to, int64_t begin, int64_t stop, bool past)
{
    const int64_t whole = stop - static_cast<int64_t>(beyond_line(to + stop) / sizeof(E));
    return past && whole > begin ? whole : stop;
}

// Of columns [begin, end) those that go past the caches.
struct past_columns {
    int64_t begin, end;
};

// Whole lines of every array, the one of the smallest elements first: a part of one would be merged in
// memory. None where arrays lie otherwise than the first; and of a few, as the lines at both ends, which
// rows share, are waited for.
template <typename E, typename... More>
inline past_columns past_lines(bool past, int64_t begin, int64_t end, const E* to, const More*... more)
{
    constexpr int64_t line = line_bytes / sizeof(E), some = 16;
    if (!past)
        return {begin, begin};
    const int64_t head = begin + -beyond_line(to + begin) % line_bytes / sizeof(E);
    const bool together = (true && ... && (beyond_line(more + head) == 0));
    if (end - head < some * line || !together)
        return {begin, begin};
    return {head, head + (end - head) / line * line};
}

// Columns [begin, end), a vector of lanes at a time.
template <typename V, typename F>
inline void each_result(past_columns past, int64_t begin, int64_t end, F visit)
{
    for (int part = 0; part < 3; ++part) {
        const int64_t stop = part == 0 ? past.begin : part == 1 ? past.end : end;
        for (; begin + width<V> <= stop; begin += width<V>)
            visit(begin, result_lanes(part == 1));
        if (begin < stop)
            visit(begin, first_lanes{stop - begin});
        begin = stop;
    }
}

// Other threads see what went past the caches once this is gone.
struct published {
    ~published()
    {
#ifdef __SSE2__
        __builtin_ia32_sfence();
#endif
    }
};

}  // namespace

}  // namespace fusegen
