// softmax_topk, merge: states → states    texts.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 5 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 5 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       one state at a time
// Schedule   rows one after the other
// Bytes      reads 72 bytes of each state, writes as many a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(32)));  // 8 at a time

}  // namespace

}  // namespace fusegen

#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/exp.hpp>
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>
#include <fusegen/cpu/states.hpp>

namespace fg = fusegen;

namespace {

namespace softmax_topk_merge {

// The states of all rows: where the next state of a row lies, and that of the next row.
struct Arrays {
    const uint8_t* states;
    int64_t states_outer_stride;
    int64_t states_stride;
    uint8_t* merged;
    int64_t n_cols;  // states of a row
};

struct State {
    float m;  // max of x   texts.py  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
};

// The state of no elements.
inline void identity(State& state)
{
    state.m = -fg::infinity;
    state.m_anchor = 0.0f;
    state.sum_exp = 0.0f;
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float m_anchor)
{
    const float m_shift = state.m_anchor - m_anchor;
    state.sum_exp = fg::zero_wins(state.sum_exp, fg::exp(m_shift));
    state.m_anchor = m_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   m = max(a.m, b.m)
//   sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
inline void merge(State& state, State& part)
{
    const float m = fg::greater_of(state.m, part.m);
    const float m_anchor = fg::shift_anchor(m);
    rebase(state, m_anchor);
    rebase(part, m_anchor);
    state.m = m;
    state.sum_exp += part.sum_exp;
}

// A state from its bytes; its sums are relative to its own pivots.
inline void load(State& state, const uint8_t* bytes)
{
    identity(state);
    state.m = fg::field<float>(bytes, 0);
    state.sum_exp = fg::field<float>(bytes, 4);
    state.m_anchor = fg::shift_anchor(state.m);
}

// And to its bytes.
inline void store(const State& state, uint8_t* bytes)
{
    fg::set_field<float>(bytes, 0, state.m);
    fg::set_field<float>(bytes, 4, state.sum_exp);
}

// They may be too long for a thread's stack.
struct Lists {
    fg::best_of_states<float, 5> top;
};

}  // namespace softmax_topk_merge

}  // namespace

extern "C" {

// Rows [first, last): the states of each become one, from the first to the last.
void softmax_topk_merge_rows(const softmax_topk_merge::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace softmax_topk_merge;
    Lists& lists = *static_cast<Lists*>(scratch);
    for (int64_t r = first; r < last; ++r) {
        const uint8_t* next = arrays->states + r * arrays->states_stride;
        uint8_t* merged = arrays->merged + r * 72;
        State total, part;
        identity(total);
        lists.top.clear();
        for (int64_t i = 0; i < arrays->n_cols; ++i, next += arrays->states_outer_stride) {
            load(i == 0 ? total : part, next);
            if (i > 0)
                merge(total, part);
            lists.top.take(next + 8, next + 32);
        }
        store(total, merged);
        lists.top.store(merged + 8, merged + 32);
    }
}

int64_t softmax_topk_merge_scratch_bytes(int64_t) { return sizeof(softmax_topk_merge::Lists); }

}  // extern "C"
