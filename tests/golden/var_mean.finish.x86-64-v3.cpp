// var_mean, finish: states → results    texts.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// Proved     pointwise identity, read-out, cocycle, unit, known zero, range, conditioning
// Schedule   rows one after the other
// Bytes      reads 8 bytes of a state, writes 8 bytes a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(32)));  // 8 at a time

}  // namespace

}  // namespace fusegen

#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/memory.hpp>

namespace fg = fusegen;

namespace {

namespace var_mean_finish {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* mean_x_total_state;
    int64_t mean_x_total_state_stride;
    const float* mean_pow_state;
    int64_t mean_pow_state_stride;
    float* mean_pow;
    int64_t mean_pow_stride;
    float* mean_x;
    int64_t mean_x_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* mean_x_total_state;  // one value
    const float* mean_pow_state;  // one value
    float* mean_pow;  // one value
    float* mean_x;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.mean_x_total_state + row * arrays.mean_x_total_state_stride,
        arrays.mean_pow_state + row * arrays.mean_pow_state_stride,
        arrays.mean_pow + row * arrays.mean_pow_stride,
        arrays.mean_x + row * arrays.mean_x_stride,
        arrays.n_cols,
    };
}

// Sweep 1: reads no elements.
namespace sweep_1 {

// The row's values and results.
inline void finish(const Row& row)
{
    const float mean_x_total_state = fg::load<float>(row.mean_x_total_state);
    const float mean_pow_state = fg::load<float>(row.mean_pow_state);
    const float mean_x = mean_x_total_state / float(row.n_cols);  // texts.py  return fg.var(x), fg.mean(x)
    const float mean_pow = std::isfinite(mean_x) ? mean_pow_state / float(row.n_cols) : fg::nan;  // texts.py  return fg.var(x), fg.mean(x)
    fg::store(row.mean_pow, mean_pow);  // texts.py  return fg.var(x), fg.mean(x)
    fg::store(row.mean_x, mean_x);  // texts.py  return fg.var(x), fg.mean(x)
}

// The whole row.
inline void run(const Row& row)
{
    finish(row);
}

}  // namespace sweep_1

}  // namespace var_mean_finish

}  // namespace

extern "C" {

// Rows [first, last).
void var_mean_finish_rows(const var_mean_finish::Arrays* arrays, int64_t first, int64_t last, void*)
{
    using namespace var_mean_finish;
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row);
    }
}

// A row's values and results.
void var_mean_finish_finish_1(const var_mean_finish::Arrays* arrays, int64_t r, int64_t, void*, void*)
{
    using namespace var_mean_finish;
    const Row row = row_of(*arrays, r);
    sweep_1::finish(row);
}

}  // extern "C"
