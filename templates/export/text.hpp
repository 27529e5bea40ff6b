// What an exported library knows of its pipeline, and what every call is checked for.
#pragma once

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fusegen {

enum Status : int { kOk, kBadArgument, kBadShape, kNotHere, kNoMemory, kDriver, kBadConstant };

// Why this thread's last call failed.
inline thread_local char complaint[512] = "";

__attribute__((format(printf, 2, 3))) inline int fail(Status status, const char* format, ...)
{
    va_list rest;
    va_start(rest, format);
    std::vsnprintf(complaint, sizeof complaint, format, rest);
    va_end(rest);
    return status;
}

enum class Shape : uint8_t { element, per_column, row, list, row_vector, column_vector, columns };

struct Type { uint8_t code, bits; const char* name; };  // code and bits are DLPack's

struct Parameter {
    const char* name;
    Shape shape;
    bool output;
    int64_t k;  // entries of a list, numbers of a vector

    // Elements of one row; of vectors of columns, those of one column.
    int64_t width(int64_t n_cols) const
    {
        if (shape == Shape::element || shape == Shape::per_column || shape == Shape::columns) return n_cols;
        return shape == Shape::row ? 1 : k;
    }

    // May rows of other leading axes have other columns?
    bool batched() const { return shape == Shape::column_vector || shape == Shape::columns; }
};

// What the text asks of the number of columns.
struct Rule { int64_t least, most, multiple; const char* why; };

struct Text {
    const char* name;
    int n_parameters;
    bool numbered;  // does it ask for the rows' numbers?
    const Rule* rules;
    int n_rules;
    const char* const* constants;  // numbers that come with a call
    int n_constants;
};

// The text with types.
struct Variant {
    const Parameter* parameters;
    const Type* types;
    // What kernels get of the constants; what does not hold of them, or null.
    const char* (*numbers)(const double* constants, double* scalars);
};

// stride: elements from one row to the next; of rows that lie side by side, from one column to the
// next, and outer from one group of them to the next. Of vectors of columns, and of numbers of columns
// beside them: stride from one column to the next, outer from a batch to the next, and a batch is for
// `rows` neighbouring rows.
struct Given { const void* at; int64_t stride, outer, rows; };

// last_rows: rows of the last axis, among which fg.row counts, where the text asks.
struct Sizes { int64_t n_rows, n_cols, last_rows; };

constexpr int64_t kMostCount = INT64_C(1) << 57;  // bytes that any machine addresses
constexpr int kMost = 64;  // arrays, constants, scalars

// ---- checks ----

// Of constants, as Python computes them; what it would raise is noted.
inline bool within(double value, double low, double high) { return value >= low && value <= high; }

inline bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

inline double quotient(double a, double b, bool& wrong)
{
    wrong = wrong || b == 0;
    return a / b;
}

inline double power(double a, double b, bool& wrong)
{
    const double found = std::pow(a, b);
    wrong = wrong || (std::isfinite(a) && std::isfinite(b) && !std::isfinite(found));
    return found;
}

inline int check_constants(const Text& text, const Variant& variant, const double* constants, double* scalars)
{
    const char* wanted = variant.numbers(constants, scalars);
    if (!wanted) return kOk;
    char told[256] = "";
    for (int i = 0, at = 0; i < text.n_constants && at < static_cast<int>(sizeof told); ++i)
        at += std::snprintf(told + at, sizeof told - at, "%s%s is %.17g", i ? ", " : "", text.constants[i],
                            constants[i]);
    return fail(kBadConstant, "%s: %s; exported for %s", text.name, told, wanted);
}

// The bytes of an array: [first, end), in pieces of `row` bytes that are `step` apart.
struct Extent { __int128 first, end, step, row; };

inline Extent extent_of(const Parameter& p, const Type& type, const Given& g, int64_t n_rows, int64_t n_cols)
{
    const __int128 size = type.bits / 8, start = reinterpret_cast<uintptr_t>(g.at);
    const __int128 row = p.width(n_cols) * size;
    const __int128 step = p.shape == Shape::per_column ? 0 : g.stride * size, over = step * (n_rows - 1);
    return {start + (over < 0 ? over : 0), start + (over > 0 ? over : 0) + row, step < 0 ? -step : step, row};
}

// The same of columns' vectors and numbers, as one piece from the first byte to the last.
inline Extent extent_of_batches(const Parameter& p, const Type& type, const Given& g, int64_t n_rows, int64_t n_cols)
{
    const bool vectors = p.shape == Shape::column_vector;
    const __int128 size = type.bits / 8, start = reinterpret_cast<uintptr_t>(g.at);
    const __int128 columns = vectors ? (n_cols - 1) * (g.stride * size) : 0;
    const __int128 batches = (n_rows / g.rows - 1) * (g.outer * size), row = p.width(n_cols) * size;
    const __int128 low = (columns < 0 ? columns : 0) + (batches < 0 ? batches : 0);
    const __int128 high = (columns > 0 ? columns : 0) + (batches > 0 ? batches : 0);
    return {start + low, start + high + row, 0, row + high - low};
}

inline bool overlap(const Extent& a, const Extent& b)
{
    if (a.end <= b.first || b.end <= a.first) return false;
    if (a.step != b.step || a.step == 0) return true;
    const __int128 apart = ((b.first - a.first) % a.step + a.step) % a.step;  // rows lie in turn
    return apart < a.row || apart + b.row > a.step;
}

inline int check_sizes(const Text& text, int64_t n_rows, int64_t n_cols)
{
    if (n_rows < 0 || n_cols < 1)
        return fail(kBadShape, "%s: %lld rows of %lld columns; rows may be 0 or more, columns 1 or more",
                    text.name, static_cast<long long>(n_rows), static_cast<long long>(n_cols));
    if (n_rows > kMostCount || n_cols > kMostCount)  // so that no extent overflows 128 bits
        return fail(kBadShape, "%s: %lld rows of %lld columns are larger than memory", text.name,
                    static_cast<long long>(n_rows), static_cast<long long>(n_cols));
    for (int i = 0; i < text.n_rules; ++i) {
        const Rule& r = text.rules[i];
        if (n_cols < r.least || n_cols > r.most || n_cols % r.multiple)
            return fail(kBadShape, "%s: rows have %lld columns, but %s", text.name,
                        static_cast<long long>(n_cols), r.why);
    }
    return kOk;
}

inline int check_pointer(const Text& text, const Parameter& p, const Type& type, const Given& g)
{
    if (!g.at) return fail(kBadArgument, "%s: %s is null", text.name, p.name);
    if (reinterpret_cast<uintptr_t>(g.at) % (type.bits / 8))
        return fail(kBadArgument, "%s: %s does not begin on a multiple of %d bytes, as %s does", text.name, p.name,
                    type.bits / 8, type.name);
    return kOk;
}

// Batches of columns are for whole numbers of rows, those of all arrays one within another; rows of the
// last axis likewise.
inline int check_batches(const Text& text, const Variant& variant, const Given* given, const Sizes& sizes)
{
    int64_t least = sizes.n_rows;
    for (int i = 0; i < text.n_parameters; ++i)
        if (variant.parameters[i].batched() && given[i].rows < least) least = given[i].rows;
    for (int i = 0; i < text.n_parameters; ++i) {
        const Parameter& p = variant.parameters[i];
        const int64_t rows = given[i].rows;
        if (!p.batched()) continue;
        if (rows < 1 || sizes.n_rows % rows)
            return fail(kBadShape, "%s: the columns of %s are for %lld rows each, which do not divide %lld rows",
                        text.name, p.name, static_cast<long long>(rows), static_cast<long long>(sizes.n_rows));
        if (rows % least)
            return fail(kBadShape, "%s: the columns of %s are for %lld rows each, those of another array for %lld",
                        text.name, p.name, static_cast<long long>(rows), static_cast<long long>(least));
    }
    if (text.numbered && (sizes.last_rows < 1 || sizes.n_rows % sizes.last_rows))
        return fail(kBadShape, "%s: last_rows is %lld, which does not divide %lld rows", text.name,
                    static_cast<long long>(sizes.last_rows), static_cast<long long>(sizes.n_rows));
    return kOk;
}

// Array i against memory's end, and against the arrays before it: is any both read and written?
inline int check_extent(const Text& text, const Variant& variant, const Extent* extents, int i)
{
    const Parameter& p = variant.parameters[i];
    if (extents[i].first < 0 || extents[i].end > UINTPTR_MAX)
        return fail(kBadShape, "%s: %s is larger than memory", text.name, p.name);
    for (int j = 0; j < i; ++j)
        if ((p.output || variant.parameters[j].output) && overlap(extents[i], extents[j]))
            return fail(kBadArgument, "%s: %s and %s share memory, and one of them is written", text.name,
                        variant.parameters[j].name, p.name);
    return kOk;
}

// Null and unaligned pointers, rows that overlap, and memory that is both read and written.
inline int check_arrays(const Text& text, const Variant& variant, const Given* given, const Sizes& sizes)
{
    const int64_t n_rows = sizes.n_rows, n_cols = sizes.n_cols;
    const Type* types = variant.types;
    Extent extents[kMost];
    if (const int status = check_batches(text, variant, given, sizes)) return status;
    for (int i = 0; i < text.n_parameters; ++i) {
        const Parameter& p = variant.parameters[i];
        if (const int status = check_pointer(text, p, types[i], given[i])) return status;
        const int64_t step = given[i].stride, width = p.width(n_cols);
        if (p.output && n_rows > 1 && -width < step && step < width)
            return fail(kBadArgument, "%s: rows of %s are %lld elements apart and have %lld: they overlap",
                        text.name, p.name, static_cast<long long>(step), static_cast<long long>(width));
        extents[i] = p.batched() ? extent_of_batches(p, types[i], given[i], n_rows, n_cols)
                                 : extent_of(p, types[i], given[i], n_rows, n_cols);
        if (const int status = check_extent(text, variant, extents, i)) return status;
    }
    return kOk;
}

// ---- rows that lie side by side: element (outer, column, i) is of row outer · n_inner + i ----

inline int check_strips(const Text& text, int64_t n_outer, int64_t n_cols, int64_t n_inner)
{
    if (n_outer < 0 || n_inner < 0 || (n_inner > 0 && n_outer > INT64_MAX / n_inner))
        return fail(kBadShape, "%s: %lld times %lld rows side by side; that is no number of rows", text.name,
                    static_cast<long long>(n_outer), static_cast<long long>(n_inner));
    return check_sizes(text, n_outer * n_inner, n_cols);
}

// Do no two elements share memory, whichever of the axes is the slower one?
inline bool apart(const Given& g, int64_t n_outer, int64_t n_cols, int64_t n_inner)
{
    const auto nested = [&](int64_t slow, int64_t n_slow, int64_t fast, int64_t n_fast) {
        const __int128 inner = n_fast > 1 ? static_cast<__int128>(fast) * (n_fast - 1) + n_inner : n_inner;
        return (n_fast < 2 || fast >= n_inner) && (n_slow < 2 || slow >= inner);
    };
    return nested(g.outer, n_outer, g.stride, n_cols) || nested(g.stride, n_cols, g.outer, n_outer);
}

inline int check_strip_arrays(const Text& text, const Variant& variant, const Given* given, int64_t n_outer,
                              int64_t n_cols, int64_t n_inner)
{
    const Type* types = variant.types;
    Extent extents[kMost];
    for (int i = 0; i < text.n_parameters; ++i) {
        const Parameter& p = variant.parameters[i];
        const Given& g = given[i];
        if (const int status = check_pointer(text, p, types[i], g)) return status;
        extents[i] = extent_of(p, types[i], g, n_outer * n_inner, n_cols);
        if (p.shape == Shape::element) {
            if (g.stride < 0 || g.outer < 0)
                return fail(kBadArgument, "%s: %s goes backwards: its strides must be 0 or more", text.name, p.name);
            if (p.output && !apart(g, n_outer, n_cols, n_inner))
                return fail(kBadArgument, "%s: elements of %s overlap: its strides are %lld and %lld", text.name,
                            p.name, static_cast<long long>(g.outer), static_cast<long long>(g.stride));
            const __int128 size = types[i].bits / 8, start = reinterpret_cast<uintptr_t>(g.at);
            const __int128 last = static_cast<__int128>(g.outer) * (n_outer - 1)
                                + static_cast<__int128>(g.stride) * (n_cols - 1) + n_inner;
            // Arrays that lie in turn count as sharing memory.
            extents[i] = {start, start + last * size, 0, last * size};
        }
        if (const int status = check_extent(text, variant, extents, i)) return status;
    }
    return kOk;
}

}  // namespace fusegen
