// The same by tvm-ffi's ABI: one function for all types and places, called with tensors. The library is found when the
// program runs: it links tvm-ffi's own alone (pip install apache-tvm-ffi). Beside this file:
//
//   fusegen export softmax_topk --k 5 -o softmax_topk
//   g++ -std=c++17 tensors.cpp $(tvm-ffi-config --cxxflags --ldflags --libs) -Wl,-rpath,$(tvm-ffi-config --libdir) -o tensors
//   ./tensors softmax_topk/lib/libfusegen_softmax_topk.so

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

// Rows in memory of this program, without a copy.
template <typename T>
struct Rows {
    std::vector<T> numbers;
    int64_t shape[2], strides[2];
    DLTensor tensor;

    Rows(int64_t n_rows, int64_t n_cols, DLDataType type)
        : numbers(n_rows * n_cols), shape{n_rows, n_cols}, strides{n_cols, 1},
          tensor{numbers.data(), {kDLCPU, 0}, 2, type, shape, strides, 0}
    {
    }
    Rows(const Rows&) = delete;
};

int main(int argc, char** argv)
{
    if (argc != 2) return std::fprintf(stderr, "usage: %s LIBRARY\n", argv[0]), 2;
    const int64_t n_rows = 300, n_cols = 1000, k = 5;
    Rows<float> x(n_rows, n_cols, {kDLFloat, 32, 1}), values(n_rows, k, {kDLFloat, 32, 1});
    Rows<int64_t> indices(n_rows, k, {kDLInt, 64, 1});
    for (size_t i = 0; i < x.numbers.size(); ++i) x.numbers[i] = static_cast<float>(std::sin(double(i) * i) * 4);

    ffi::Module library = ffi::Module::LoadFromFile(argv[1]);
    ffi::Function softmax_topk = library->GetFunction("softmax_topk").value();
    softmax_topk(&x.tensor, &values.tensor, &indices.tensor);

    // The text itself, in double.
    double worst = 0;
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* first = &x.numbers[row * n_cols];
        const double m = *std::max_element(first, first + n_cols);
        double sum = 0;
        for (int64_t col = 0; col < n_cols; ++col) sum += std::exp(first[col] - m);
        for (int64_t i = 0; i < k; ++i) {
            const double wanted = std::exp(first[indices.numbers[row * k + i]] - m) / sum;
            worst = std::max(worst, std::abs(values.numbers[row * k + i] / wanted - 1));
            if (i && wanted > values.numbers[row * k + i - 1] * 1.00001) return std::fprintf(stderr, "no order\n"), 1;
        }
    }
    std::printf("%lld rows, greatest relative error %.1e\n", static_cast<long long>(n_rows), worst);

    // What is not as it has to be is an exception here.
    x.shape[1] = 3;
    try {
        softmax_topk(&x.tensor, &values.tensor, &indices.tensor);
    } catch (const ffi::Error& error) {
        std::printf("3 columns: %s: %s\n", error.kind().c_str(), error.message().c_str());
        return worst < 1e-5 ? 0 : 1;
    }
    return 1;
}
