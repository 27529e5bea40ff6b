// Calls on the processor: the best code that it runs, and threads that share the rows.
#pragma once

#include <algorithm>
#include <climits>
#include <cstring>
#include <exception>
#include <vector>

#include <unistd.h>

#include "plan.hpp"
#include "team.hpp"
#include "text.hpp"

namespace fusegen {

// A word of a kernel's struct Arrays. index: of the array, or of the scalar, which the word begins with; of
// `past`: bytes of a column of a row, of all results.
struct Slot {
    enum What : uint8_t { address, stride, column_stride, outer, rows, columns, zero, past, float32, float64 } what;
    int index;
};

struct Launch { Step step; std::vector<Slot> slots; };

// An array between two kernels.
struct Between { Shape shape; int itemsize; int64_t k; };

// Arrays of a kernel are those that are given, then the rows' numbers, where the text asks for them, then
// those between.
struct Program { std::vector<Launch> launches; std::vector<Between> between; };

// Code for processors of one kind; a list has the one that asks for most first.
struct Level { const char* needs; bool (*runs)(); const Program& (*program)(); };

template <typename T>
int64_t word_of(double number)
{
    const T rounded = static_cast<T>(number);
    int64_t word = 0;
    std::memcpy(&word, &rounded, sizeof rounded);
    return word;
}

// Are results of so many bytes too many for the last cache? (past.py asks the same.)
inline bool outgrow_caches(__int128 n_bytes)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    static const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
    constexpr int64_t cache = 0;
#endif
    return 4 * n_bytes > (cache > 0 ? cache : 32 << 20);
}

inline bool run_launch(const Launch& launch, const Given* given, const double* scalars, int64_t n_rows,
                       int64_t n_cols, int most)
{
    std::vector<int64_t> words;
    for (const Slot& slot : launch.slots) switch (slot.what) {
        case Slot::address: words.push_back(reinterpret_cast<int64_t>(given[slot.index].at)); break;
        case Slot::stride: words.push_back(n_rows > 1 ? given[slot.index].stride : 0); break;
        case Slot::column_stride: words.push_back(given[slot.index].stride); break;
        case Slot::outer: words.push_back(given[slot.index].outer); break;
        case Slot::rows: words.push_back(given[slot.index].rows); break;
        case Slot::columns: words.push_back(n_cols); break;
        case Slot::zero: words.push_back(0); break;
        case Slot::past: words.push_back(outgrow_caches(static_cast<__int128>(n_rows) * n_cols * slot.index)); break;
        case Slot::float32: words.push_back(word_of<float>(scalars[slot.index])); break;
        case Slot::float64: words.push_back(word_of<double>(scalars[slot.index])); break;
    }
    if (in_pieces(launch.step, n_rows, n_cols, most))
        return run_pieces(launch.step, words.data(), n_rows, n_cols, most);
    const int threads = threads_for(static_cast<__int128>(n_rows) * n_cols, most);
    return run_rows(launch.step, words.data(), 0, n_rows, n_cols, threads);
}

inline bool run_program(const Program& program, const Text& text, const Given* given, const double* scalars,
                        const Sizes& sizes, int threads)
{
    const int64_t n_rows = sizes.n_rows, n_cols = sizes.n_cols;
    std::vector<Given> arrays(given, given + text.n_parameters);
    std::vector<std::unique_ptr<Room>> rooms;
    const auto room = [&](int64_t width, int itemsize) {
        if (n_rows > INT64_MAX / 2 / itemsize / width) return false;
        rooms.push_back(std::make_unique<Room>(n_rows * width * itemsize));
        if (rooms.back()->missing) return false;
        arrays.push_back({rooms.back()->start, width, 0, 0});
        return true;
    };
    if (text.numbered) {
        if (!room(1, sizeof(int64_t))) return false;
        auto* numbers = static_cast<int64_t*>(rooms.back()->start);
        for (int64_t i = 0; i < n_rows; ++i) numbers[i] = i % sizes.last_rows;
    }
    for (const Between& b : program.between)
        if (!room(b.shape == Shape::row ? 1 : b.shape == Shape::row_vector ? b.k : n_cols, b.itemsize)) return false;
    for (const Launch& launch : program.launches)
        if (!run_launch(launch, arrays.data(), scalars, n_rows, n_cols, threads)) return false;
    return true;
}

// threads: at most so many; 0: as many as the process may have.
inline int on_cpu(const Text& text, const Variant& variant, const std::vector<Level>& levels, const Given* given,
                  const double* constants, const Sizes& sizes, int threads)
{
    const int64_t n_rows = sizes.n_rows, n_cols = sizes.n_cols;
    double scalars[kMost];
    int status = check_sizes(text, n_rows, n_cols);
    if (!status) status = check_constants(text, variant, constants, scalars);
    if (status || n_rows == 0) return status;
    status = check_arrays(text, variant, given, sizes);
    if (status) return status;
    if (threads < 0) return fail(kBadArgument, "%s: threads is %d, not 0 or more", text.name, threads);
    for (const Level& level : levels)
        if (level.runs()) try {
                const bool small = static_cast<__int128>(n_rows) * n_cols < kSharedElements;
                const int most = small ? 1 : threads ? threads : team();
                if (run_program(level.program(), text, given, scalars, sizes,
                                most < 256 ? most : 256))
                    return kOk;
                return fail(kNoMemory, "%s: there is no memory for %lld rows", text.name,
                            static_cast<long long>(n_rows));
            } catch (const std::exception& error) {
                return fail(kNoMemory, "%s: %s", text.name, error.what());
            }
    return fail(kNotHere, "%s: exported for processors with %s; this one lacks some of that", text.name,
                levels.back().needs);
}

}  // namespace fusegen
