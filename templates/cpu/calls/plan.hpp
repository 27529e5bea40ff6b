// Kernels of a remembered call, and how threads share them.
//
// The tree of merges of a row is fixed by the number of columns, so results do not depend on the
// number of threads, whether a thread owns whole rows or threads share one.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "pages.hpp"
#include "pool.hpp"

namespace fusegen {

typedef void (*Rows)(const void* arrays, int64_t first, int64_t last, void* scratch);
typedef int64_t (*Scratch)(int64_t n_cols);  // bytes that a thread needs
typedef void (*Begin)(const void* arrays, int64_t row, void* known);
typedef void (*Fold)(const void* arrays, int64_t row, int64_t first, int64_t last,
                     const void* known, void* state);
typedef void (*Finish)(const void* arrays, int64_t row, int64_t pieces, void* known, void* states);

struct Word { bool address; int64_t value; };  // a number, or which of the call's addresses

struct Sweep { Fold fold; Finish finish; int64_t state_bytes; };

struct Step {
    Rows rows;
    Scratch scratch;
    Begin begin;
    int64_t known_bytes;
    std::vector<Word> words;  // of the kernel's struct Arrays
    std::vector<Sweep> sweeps;  // none where threads cannot share a row
    int64_t multiple = 1;  // of how many rows parts are best: above 1, their elements are made of vectors
    int64_t piece = INT64_MAX;  // columns of one, of a row that threads share
};

constexpr int kMostWords = 128;
constexpr int64_t kLine = 64;
constexpr int64_t kPartElements = 1 << 13;  // of a part at least: 4 µs of work
constexpr int64_t kSharedElements = 1 << 15;  // of a call that threads share: less stays in one processor's caches
constexpr int64_t kManyElements = 1 << 17;  // that keep any kernel busy for longer than threads wake
constexpr int64_t kPartsPerThread = 8;  // so that no thread waits long for the last
constexpr int64_t kFewerParts = 4;  // of rows that bring the same vectors into order, part by part
constexpr int64_t kMultiples = 32;  // beyond that many rows a part spares nothing more
constexpr int64_t kRunElements = 1 << 26;  // between two looks at signals: a tenth of a second at most
constexpr int64_t kPairElements = 1 << 28;  // made of vectors, which come into order for all their rows: a second at most

inline int64_t whole_lines(int64_t n_bytes) { return (n_bytes + kLine - 1) & -kLine; }

// Memory that starts on a cache line, as vectors in a state must; null: there is none.
struct Room {
    explicit Room(int64_t n_bytes)
        : start(n_bytes ? std::aligned_alloc(kLine, whole_lines(n_bytes)) : nullptr),
          missing(n_bytes && !start)
    {
        if (start) in_large_pages(static_cast<char*>(start), n_bytes);
    }
    ~Room() { std::free(start); }
    Room(const Room&) = delete;
    char* at(int64_t offset) const { return static_cast<char*>(start) + offset; }
    void* start;
    bool missing;
};

// Of `most` threads, those that so many elements are worth.
inline int threads_for(__int128 elements, int most)
{
    if (elements < kSharedElements) return 1;
    return elements / kPartElements < most ? static_cast<int>(elements / kPartElements) : most;
}

// ---- a thread owns the rows of a block ----

struct Blocks {
    const Step* step;
    const void* arrays;
    int64_t first, last, block, scratch_bytes;  // whole lines, for each thread
    char* scratch;
};

inline void run_block(const void* call, int64_t number, int thread)
{
    const auto& c = *static_cast<const Blocks*>(call);
    const int64_t begin = c.first + number * c.block, end = begin + c.block;
    c.step->rows(c.arrays, begin, end < c.last ? end : c.last,
                 c.scratch + thread * c.scratch_bytes);
}

// Rows of a part, so that threads have the same number of parts.
inline int64_t even_part(int64_t multiple, int64_t n_rows, int64_t threads)
{
    const auto over = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
    const int64_t full = over(n_rows, threads * multiple * kMultiples);
    const int64_t parts = multiple == 1 ? kPartsPerThread : full > kFewerParts ? full : kFewerParts;
    return over(over(n_rows, threads * parts), multiple) * multiple;
}

// False: there is no memory.
inline bool run_rows(const Step& step, const void* arrays, int64_t first, int64_t last,
                     int64_t n_cols, int threads)
{
    const int64_t n_rows = last - first;
    const int64_t each = step.scratch ? whole_lines(step.scratch(n_cols)) : 0;
    alignas(kLine) char small[16384];
    if (threads < 2 && each <= (int64_t)sizeof small) {
        step.rows(arrays, first, last, small);
        return true;
    }
    const Room scratch(threads * each);
    if (scratch.missing) return false;
    const int64_t least = (kPartElements + n_cols - 1) / n_cols, even = even_part(step.multiple, n_rows, threads);
    const int64_t block = threads < 2 ? n_rows : least > even ? least : even;
    const Blocks call{&step, arrays, first, last, block, each, scratch.at(0)};
    share((n_rows + block - 1) / block, threads, run_block, &call, n_rows * n_cols >= kManyElements);
    return true;
}

// ---- threads share the pieces of every row, sweep by sweep; one merges them in order ----

// Has no thread as much to do if all share the pieces of every row, as if each had whole rows? Of these terms
// are kept from sweep to sweep, and lie in its caches. (launch.py asks the same.)
inline bool in_pieces(const Step& step, int64_t n_rows, int64_t n_cols, int threads)
{
    if (step.sweeps.empty() || n_cols <= step.piece) return false;
    const auto over = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
    const auto whole = static_cast<__int128>(over(n_rows, threads)) * n_cols;
    const auto pieces = static_cast<__int128>(n_rows) * over(n_cols, step.piece);
    return 3 * ((pieces + threads - 1) / threads * step.piece) < 2 * whole;
}

struct Pieces {
    const Sweep* sweep;
    const void* arrays;
    int64_t pieces, columns, n_cols, known_bytes;
    const Room &known, &states;
};

inline void run_piece(const void* call, int64_t number, int)
{
    const auto& c = *static_cast<const Pieces*>(call);
    const int64_t row = number / c.pieces, begin = number % c.pieces * c.columns;
    const int64_t end = begin + c.columns;
    c.sweep->fold(c.arrays, row, begin, end < c.n_cols ? end : c.n_cols,
                  c.known.at(row * whole_lines(c.known_bytes)),
                  c.states.at(number * c.sweep->state_bytes));
}

inline bool run_pieces(const Step& step, const void* arrays, int64_t n_rows, int64_t n_cols,
                       int threads)
{
    const int64_t pieces = (n_cols + step.piece - 1) / step.piece;
    const Room known(n_rows * whole_lines(step.known_bytes));
    if (known.missing) return false;
    const int64_t stride = whole_lines(step.known_bytes);
    const auto known_of = [&](int64_t row) { return known.at(row * stride); };
    for (int64_t row = 0; step.begin && row < n_rows; ++row) step.begin(arrays, row, known_of(row));
    for (const Sweep& sweep : step.sweeps) {
        const Room states(n_rows * pieces * sweep.state_bytes);
        if (states.missing) return false;
        const Pieces call{&sweep, arrays, pieces, step.piece, n_cols, step.known_bytes, known, states};
        if (sweep.fold) share(n_rows * pieces, threads, run_piece, &call, true);
        for (int64_t row = 0; sweep.finish && row < n_rows; ++row)
            sweep.finish(arrays, row, pieces, known_of(row),
                         states.at(row * pieces * sweep.state_bytes));
    }
    return true;
}

}  // namespace fusegen
