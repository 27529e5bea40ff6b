// softmax_topk, finish: states → results    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Schedule   row per 8 lanes
// Launch     softmax_topk_finish_kernel<<<⌈n_rows / 16⌉, 128>>>
// Bytes      reads 68 bytes of a state, writes 60 bytes a row

#include <fusegen/team.cuh>
#include <fusegen/math/divisor.cuh>

using namespace fusegen;

using Team = Lanes<8>;  // lanes of a warp, which own a row
constexpr int kRowsPerBlock = 16;
constexpr int kMostThreads = 128;  // of a block
#define kNaN __int_as_float(0x7fc00000)

extern "C" __global__ void __launch_bounds__(kMostThreads)
softmax_topk_finish_kernel(
    const float* __restrict__ m_state_in, const float* __restrict__ sum_exp_state_in,
    const float* __restrict__ top_value_in, const long long* __restrict__ top_column_in,
    float* __restrict__ values_out, long long* __restrict__ indices_out, long long n_rows,
    long long n_cols_wide)
{
    const int rank = threadIdx.x % Team::threads();  // of this thread in its team
    const int team = threadIdx.x / Team::threads();  // of this block
    // Lanes without a row of their own go along with the last one and write nothing.
    const long long mine = static_cast<long long>(blockIdx.x) * kRowsPerBlock + team;
    const long long row = mine < n_rows ? mine : n_rows - 1;
    const float m_state = m_state_in[row * 18];
    const float sum_exp_state = sum_exp_state_in[row * 18];
    if (mine < n_rows) {
        const float m = m_state;  // texts.py  m = fg.max(x)
        const float sum_exp = isfinite(m) ? sum_exp_state : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        for (int entry = rank; entry < 5; entry += Team::threads()) {
            const float top_value = top_value_in[row * 18 + entry];
            const long long top_column = top_column_in[row * 9 + entry];
            const Divisor sum_exp_divisor(sum_exp);
            values_out[row * 5 + entry] = sum_exp_divisor.under(expf(top_value - m));  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
            indices_out[row * 5 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        }
    }
}
