// Softmax and its five best, in a program without Python. Beside this file:
//
//   fusegen export softmax_topk --k 5 -o softmax_topk
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=$PWD/softmax_topk && cmake --build build && build/example
//
// or without CMake:
//
//   export PKG_CONFIG_PATH=softmax_topk/lib/pkgconfig
//   g++ main.cpp $(pkg-config --cflags --libs fusegen_softmax_topk) -Wl,-rpath,$PWD/softmax_topk/lib

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <fusegen/softmax_topk.h>

int main()
{
    const int64_t n_rows = 1000, n_cols = 5000, k = 5;
    std::vector<float> x(n_rows * n_cols), values(n_rows * k);
    std::vector<int64_t> indices(n_rows * k);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 3);
    for (float& one : x) one = normal(random);

    // Rows are n_cols elements apart; 0: as many threads as the process may have.
    if (softmax_topk_float32_cpu(x.data(), n_cols, values.data(), indices.data(), n_rows, n_cols, 0)) {
        std::fprintf(stderr, "%s\n", softmax_topk_error());
        return 1;
    }

    // The text itself, in double, for every row.
    double worst = 0;
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* first = &x[row * n_cols];
        const double m = *std::max_element(first, first + n_cols);
        double sum = 0;
        for (int64_t col = 0; col < n_cols; ++col) sum += std::exp(first[col] - m);
        std::vector<float> sorted(first, first + n_cols);
        std::partial_sort(sorted.begin(), sorted.begin() + k, sorted.end(), std::greater<float>());
        for (int64_t i = 0; i < k; ++i) {
            const double wanted = std::exp(sorted[i] - m) / sum;
            worst = std::max(worst, std::abs(values[row * k + i] / wanted - 1));
            if (first[indices[row * k + i]] != sorted[i]) return std::fprintf(stderr, "another column\n"), 1;
        }
    }
    std::printf("%lld rows, greatest relative error %.1e\n", static_cast<long long>(n_rows), worst);

    // What is not as the function needs it is refused, and said.
    const int status = softmax_topk_float32_cpu(x.data(), n_cols, values.data(), indices.data(), 1, 3, 0);
    std::printf("3 columns: status %d, %s\n", status, softmax_topk_error());
    return worst < 1e-5 && status == SOFTMAX_TOPK_BAD_SHAPE ? 0 : 1;
}
