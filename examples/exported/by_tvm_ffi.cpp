// The same library by tvm-ffi's ABI: one function for all types and places, found by the tensors. Without Python:
//
//   fusegen export softmax_topk --k 5 -o softmax_topk
//   g++ -std=c++17 by_tvm_ffi.cpp $(tvm-ffi-config --cxxflags --ldflags --libs) -Wl,-rpath,$(tvm-ffi-config --libdir)
//   ./a.out softmax_topk/lib/libfusegen_softmax_topk.so

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>

// A tensor of two axes, over memory that is there already.
DLTensor of(void* data, DLDataType type, int64_t (&shape)[2])
{
    DLTensor tensor{};
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.dtype = type;
    tensor.ndim = 2;
    tensor.shape = shape;
    return tensor;
}

int main(int, char** arguments)
{
    const int64_t n_rows = 64, n_cols = 3000, k = 5;
    std::vector<float> x(n_rows * n_cols), values(n_rows * k);
    std::vector<int64_t> indices(n_rows * k);
    for (int64_t i = 0; i < n_rows * n_cols; ++i) x[i] = 8 * std::sin(static_cast<float>(i * i % 10007));

    int64_t rows[] = {n_rows, n_cols}, lists[] = {n_rows, k}, short_rows[] = {n_rows, 3};
    const DLDataType real = {kDLFloat, 32, 1}, whole = {kDLInt, 64, 1};
    DLTensor in = of(x.data(), real, rows), best = of(values.data(), real, lists),
             where = of(indices.data(), whole, lists), few = of(x.data(), real, short_rows);

    const auto module = tvm::ffi::Module::LoadFromFile(arguments[1]);
    const tvm::ffi::Function softmax_topk = module->GetFunction("softmax_topk").value();
    softmax_topk(&in, &best, &where);

    double worst = 0;
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* first = &x[row * n_cols];
        double sum = 0, above = 0;
        for (int64_t col = 0; col < n_cols; ++col) sum += std::exp(static_cast<double>(first[col]));
        const float last = first[indices[row * k + k - 1]];
        for (int64_t col = 0; col < n_cols; ++col) above += first[col] > last;
        if (above >= k) return std::fprintf(stderr, "row %d has better columns\n", static_cast<int>(row)), 1;
        for (int64_t i = row * k; i < row * k + k; ++i)
            worst = std::max(worst, std::abs(values[i] * sum / std::exp(static_cast<double>(first[indices[i]])) - 1));
    }
    std::printf("%d rows, greatest relative error %.1e\n", static_cast<int>(n_rows), worst);

    // What is not as the function needs it is refused, and said.
    try {
        softmax_topk(&few, &best, &where);
        return 1;
    } catch (const tvm::ffi::Error& error) {
        std::printf("3 columns: %s\n", error.what());
    }
    return worst < 1e-5 ? 0 : 1;
}
