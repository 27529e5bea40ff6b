// scan    own_cases.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (recurrence_state), of no elements (RecurrenceMonoid(1, 0))
// a ⊕ b      recurrence_state = a.recurrence_state ⊕ b.recurrence_state of recurrence, in row order:
//              slope = a.slope·b.slope
//              offset = b.slope·a.offset + b.offset
// Proved     associative, identity
// Tree       block online, chunks of 2048
// Schedule   vectors of 8, chunks of 2048, pieces of 32768 columns
// Bytes      reads each element of a, b once, writes 4 bytes a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(32)));  // 8 at a time
constexpr int64_t piece = 32768;  // columns folded in one go, of longer rows on however many threads

}  // namespace

}  // namespace fusegen

#include <fusegen/cpu/vectors.hpp>
#include <fusegen/cpu/walk.hpp>
#include <fusegen/cpu/memory.hpp>

namespace fg = fusegen;

namespace {

namespace scan {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* a;
    int64_t a_stride;
    const float* b;
    int64_t b_stride;
    float* recurrence_offset;
    int64_t recurrence_offset_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* a;  // n_cols elements
    const float* b;  // n_cols elements
    float* recurrence_offset;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.a + row * arrays.a_stride,
        arrays.b + row * arrays.b_stride,
        arrays.recurrence_offset + row * arrays.recurrence_offset_stride,
        arrays.n_cols,
    };
}

// Sweep 1: reads a, b.
namespace sweep_1 {

// recurrence of own_cases.py, which keeps the order of the row: one state, or one in every lane.
template <typename V>
struct RecurrenceMonoid {
    V slope;
    V offset;

    static RecurrenceMonoid identity()
    {
        RecurrenceMonoid e;
        e.slope = fg::all<V>(1.0f);
        e.offset = fg::all<V>(0.0f);
        return e;
    }

    RecurrenceMonoid<float> lane(int64_t item) const
    {
        return {fg::in_lane(slope, item), fg::in_lane(offset, item)};
    }
};

// a ⊕ b
template <typename V>
inline RecurrenceMonoid<V> merge(const RecurrenceMonoid<V>& a, const RecurrenceMonoid<V>& b)
{
    RecurrenceMonoid<V> r;
    r.slope = a.slope * b.slope;
    r.offset = b.slope * a.offset + b.offset;
    return r;
}

struct State {
    RecurrenceMonoid<float> recurrence_state;  // recurrence   own_cases.py  return fg.reduce(recurrence, a, b)
};

// The state of no elements.
inline void identity(State& state)
{
    state.recurrence_state = RecurrenceMonoid<float>::identity();
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   recurrence_state = a.recurrence_state ⊕ b.recurrence_state of recurrence, in row order:
//     slope = a.slope·b.slope
//     offset = b.slope·a.offset + b.offset
inline void merge(State& state, State& part)
{
    state.recurrence_state = merge(state.recurrence_state, part.recurrence_state);
}

// One chunk, columns [begin, end): a whole number of V.
template <typename V>
inline void absorb(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. recurrence_state: one element after the other, as the row has them.
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        fg::prefetch(row.a + col + 2048);
        fg::prefetch(row.b + col + 2048);
        const V a = fg::load<V>(row.a + col);
        const V b = fg::load<V>(row.b + col);
        RecurrenceMonoid<V> recurrence_state_item;
        recurrence_state_item.slope = a;
        recurrence_state_item.offset = b;  // own_cases.py  return fg.reduce(recurrence, a, b)
        for (int64_t lane = 0; lane < fg::width<V>; ++lane)
            state.recurrence_state = merge(state.recurrence_state, recurrence_state_item.lane(lane));
    });
}

// Columns [begin, end) of a row, chunk by chunk; what fills no vector comes last.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 2048;
    const int64_t rest = end - (end - begin) % fg::width<fg::lanes>;
    for (; begin < rest; begin += chunk) {
        absorb<fg::lanes>(state, row, begin, rest - begin < chunk ? rest : begin + chunk);
    }
    if (rest < end)
        absorb<float>(state, row, rest, end);
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float recurrence_offset = state.recurrence_state.offset;  // own_cases.py  return fg.reduce(recurrence, a, b)
    fg::store(row.recurrence_offset, recurrence_offset);  // own_cases.py  return fg.reduce(recurrence, a, b)
}

// The whole row, piece by piece, merged in order.
inline void run(const Row& row, State* states)
{
    State& state = states[0];
    State& part = states[1];
    identity(state);
    fold(state, row, 0, row.n_cols < fg::piece ? row.n_cols : fg::piece);
    for (int64_t begin = fg::piece; begin < row.n_cols; begin += fg::piece) {
        const int64_t end = row.n_cols - begin < fg::piece ? row.n_cols : begin + fg::piece;
        identity(part);
        fold(part, row, begin, end);
        merge(state, part);
    }
    finish(state, row);
}

}  // namespace sweep_1

}  // namespace scan

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t scan_scratch_bytes(int64_t)
{
    using namespace scan;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void scan_rows(const scan::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace scan;
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t scan_state_bytes_1() { return sizeof(scan::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void scan_fold_1(const scan::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace scan;
    const Row row = row_of(*arrays, r);
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
}

// The pieces of a row, in order, into one, and its results.
void scan_finish_1(const scan::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace scan;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
