// Matrices of a warp: mma, ldmatrix and movmatrix.  The last lane to come does the work of all.
#include <cstring>

#include "fragments.h"
#include "machine.h"

namespace simt {

namespace {

void multiply_all(const LaneValues& values, int line) {
    const Operand operand = brought_by<const WarpProduct>(values, 0).operand;
    std::array<Inner, 16> a;
    std::array<Inner, 8> b;
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        const auto& product = brought_by<const WarpProduct>(values, lane);
        if (product.operand != operand) fail(line, "lanes multiply matrices of different types");
        place_a(a, operand, lane, product.a);
        for (unsigned i = 0; i < 2; ++i) {
            place_word(b[lane / 4], operand, lane, i, product.b[i]);
        }
    }
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        const auto& product = brought_by<const WarpProduct>(values, lane);
        for (unsigned i = 0; i < 4; ++i) {
            const Inner& row = a[lane / 4 + 8 * (i >> 1)];
            const Inner& column = b[lane % 4 * 2 + (i & 1)];
            *product.sums[i] = dot(row, column, inner_extent(operand), product.added[i]);
        }
    }
}

using Matrix = std::array<std::array<uint16_t, 8>, 8>;

uint32_t word_of(const Matrix& matrix, bool transposed, unsigned lane) {
    const unsigned g = lane / 4, c = lane % 4 * 2;
    const uint32_t low = transposed ? matrix[c][g] : matrix[g][c];
    const uint32_t high = transposed ? matrix[c + 1][g] : matrix[g][c + 1];
    return high << 16 | low;
}

void load_all(const LaneValues& values, int line) {
    const auto& first = brought_by<const MatrixLoad>(values, 0);
    for (unsigned i = 0; i < first.count; ++i) {
        Matrix matrix;
        for (unsigned r = 0; r < 8; ++r) {
            const auto& load = brought_by<const MatrixLoad>(values, 8 * i + r);
            memcpy(matrix[r].data(), locate(Space::shared_cta, load.row, line), 16);
        }
        for (unsigned lane = 0; lane < warp_width; ++lane) {
            const auto& load = brought_by<const MatrixLoad>(values, lane);
            *load.words[i] = word_of(matrix, first.transposed, lane);
        }
    }
}

void transpose_all(const LaneValues& values, int) {
    Matrix matrix;
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        const uint32_t word = brought_by<const uint32_t>(values, lane);
        matrix[lane / 4][lane % 4 * 2] = static_cast<uint16_t>(word);
        matrix[lane / 4][lane % 4 * 2 + 1] = static_cast<uint16_t>(word >> 16);
    }
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        brought_by<uint32_t>(values, lane) = word_of(matrix, true, lane);
    }
}

}  // namespace

void multiply_warp(const WarpProduct& product, int line) {
    meet_warp(&product, multiply_all, line);
}

// Each lane answers for the row whose address it gives; that of a lane beyond them is not used.
void load_matrices(const MatrixLoad& load, int line) {
    if (machine->current->lane() < 8 * load.count) {
        const void* row = locate(Space::shared_cta, load.row, line);
        require_aligned(row, 16, "ldmatrix", line);
        check_access(row, 16, AccessKind::read, Site{.line = line});
    }
    meet_warp(&load, load_all, line);
}

uint32_t transpose_matrix(uint32_t word, int line) {
    meet_warp(&word, transpose_all, line);
    return word;
}

}  // namespace simt
