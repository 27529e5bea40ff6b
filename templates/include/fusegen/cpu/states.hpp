#pragma once
// States in their bytes.

#include <cstdint>
#include <cstring>

namespace fusegen {

namespace {

// A field of a state in its bytes.
template <typename T>
inline T field(const uint8_t* bytes, int64_t offset)
{
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
}

template <typename T>
inline void set_field(uint8_t* bytes, int64_t offset, T value)
{
    std::memcpy(bytes + offset, &value, sizeof value);
}

// The K best of lists that lie in the bytes of states, each best first; a column of -1: no element.
template <typename T, int64_t K>
struct best_of_states {
    T values[2][K];  // those that are held, and room for them and others
    int64_t columns[2][K];
    int64_t held, side;

    void clear() { held = side = 0; }

    // NaN first, then greater values, then lower columns.
    static bool above(T a, int64_t a_column, T b, int64_t b_column)
    {
        if ((a != a) != (b != b))
            return a != a;
        if (a != b && a == a)
            return a > b;
        return a_column < b_column;
    }

    // The entries of one more list. Equals stand as the lists come.
    void take(const uint8_t* more_values, const uint8_t* more_columns)
    {
        const T* my_values = values[side];
        const int64_t* my_columns = columns[side];
        side = !side;
        T value = 0;
        int64_t column, mine = 0, theirs = 0, n = 0;
        for (; n < K; ++n) {
            column = -1;
            if (theirs < K) {
                std::memcpy(&value, more_values + theirs * sizeof(T), sizeof(T));
                std::memcpy(&column, more_columns + theirs * 8, 8);
            }
            const bool more = column >= 0;
            if (mine == held && !more)
                break;
            const bool ahead = more && (mine == held || above(value, column, my_values[mine], my_columns[mine]));
            values[side][n] = ahead ? value : my_values[mine];
            columns[side][n] = ahead ? column : my_columns[mine];
            theirs += ahead;
            mine += !ahead;
        }
        held = n;
    }

    void store(uint8_t* to_values, uint8_t* to_columns)
    {
        for (int64_t i = held; i < K; ++i) {
            values[side][i] = 0;
            columns[side][i] = -1;
        }
        std::memcpy(to_values, values[side], sizeof values[side]);
        std::memcpy(to_columns, columns[side], sizeof columns[side]);
    }
};

}  // namespace

}  // namespace fusegen
