// What moving an array's bytes takes at least: plain loops, as many threads as are asked for.

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstdint>

typedef int64_t words __attribute__((vector_size(LANE_BYTES), aligned(1)));

namespace {

constexpr int64_t kStep = 4 * sizeof(words);

// Bytes [begin, end) of one or two inputs, which are read, and of as many results as there are, which are
// written: past the caches, or through them.
template <bool past>
int64_t moved(const char* a, const char* b, char* const* to, int64_t results, int64_t begin, int64_t end)
{
    words found[4] = {};
    const auto write = [](char* at, words v) {
#if LANE_BYTES == 64
        if (past) return _mm512_stream_si512(reinterpret_cast<__m512i*>(at), (__m512i)v);
#elif LANE_BYTES == 32
        if (past) return _mm256_stream_si256(reinterpret_cast<__m256i*>(at), (__m256i)v);
#endif
        *reinterpret_cast<words*>(at) = v;
    };
    for (int64_t i = begin; i + kStep <= end; i += kStep)
        for (int64_t w = 0; w < 4; ++w) {
            const int64_t at = i + w * int64_t(sizeof(words));
            words v = *reinterpret_cast<const words*>(a + at);
            if (b) v ^= *reinterpret_cast<const words*>(b + at);
            if (results == 0) found[w] ^= v;
            for (int64_t r = 0; r < results; ++r) write(to[r] + at, v);
        }
#ifdef __x86_64__
    _mm_sfence();
#endif
    const words all = found[0] ^ found[1] ^ found[2] ^ found[3];
    return all[0] ^ all[1];
}

}  // namespace

extern "C" int64_t move_bytes(
    const char* a, const char* b, char* const* to, int64_t results, int64_t n_bytes, int64_t past, int threads)
{
    int64_t total = 0;
    const int64_t part = (n_bytes / threads + 4095) / 4096 * 4096;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(^ : total)
    for (int t = 0; t < threads; ++t) {
        const int64_t begin = t * part < n_bytes ? t * part : n_bytes, rest = n_bytes - begin;
        const int64_t end = begin + (rest < part ? rest : part);
        total ^= past ? moved<true>(a, b, to, results, begin, end) : moved<false>(a, b, to, results, begin, end);
    }
    return total;
}
