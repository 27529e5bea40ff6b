// The same on a GPU, by CUDA's runtime, queued on a stream. Beside this file:
//
//   fusegen export softmax_topk --k 5 --target sm_90,sm_100,cpu -o softmax_topk
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=$PWD/softmax_topk -DGPU=ON && cmake --build build && build/gpu
//
// or without CMake:
//
//   export PKG_CONFIG_PATH=softmax_topk/lib/pkgconfig
//   nvcc gpu.cpp $(pkg-config --cflags --libs fusegen_softmax_topk) -Xlinker -rpath=$PWD/softmax_topk/lib -o gpu
//
// The library finds CUDA's driver by itself: only this program links CUDA's runtime, for its memory.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <cuda_runtime_api.h>
#include <fusegen/softmax_topk.h>

static void check(cudaError_t error)
{
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
    std::exit(1);
}

template <typename T>
static T* on_gpu(size_t count)
{
    void* found = nullptr;
    check(cudaMalloc(&found, count * sizeof(T)));
    return static_cast<T*>(found);
}

int main()
{
    const int64_t n_rows = 4000, n_cols = 25000, k = 5;
    std::vector<float> x(n_rows * n_cols), values(n_rows * k);
    std::vector<int64_t> indices(n_rows * k);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 3);
    for (float& one : x) one = normal(random);

    float *x_there = on_gpu<float>(x.size()), *values_there = on_gpu<float>(values.size());
    int64_t* indices_there = on_gpu<int64_t>(indices.size());
    cudaStream_t stream;
    cudaEvent_t begin, end;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    check(cudaMemcpyAsync(x_there, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice, stream));

    // Queued: no call waits for the GPU. The first one loads the kernel.
    const auto call = [&] {
        if (softmax_topk_float32_cuda(x_there, n_cols, values_there, indices_there, n_rows, n_cols, stream)) {
            std::fprintf(stderr, "%s\n", softmax_topk_error());
            std::exit(1);
        }
    };
    call();
    check(cudaEventRecord(begin, stream));
    for (int i = 0; i < 20; ++i) call();
    check(cudaEventRecord(end, stream));
    check(cudaMemcpyAsync(values.data(), values_there, values.size() * sizeof(float), cudaMemcpyDeviceToHost, stream));
    check(cudaMemcpyAsync(indices.data(), indices_there, indices.size() * sizeof(int64_t), cudaMemcpyDeviceToHost,
                          stream));
    check(cudaStreamSynchronize(stream));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    std::printf("%.1f us, %.0f GB/s of input\n", ms * 1e3 / 20, 20 * 1e-6 * x.size() * sizeof(float) / ms);

    // The text itself, in double, for every 40th row.
    double worst = 0;
    for (int64_t row = 0; row < n_rows; row += 40) {
        const float* first = &x[row * n_cols];
        const double m = *std::max_element(first, first + n_cols);
        double sum = 0;
        for (int64_t col = 0; col < n_cols; ++col) sum += std::exp(first[col] - m);
        std::vector<float> sorted(first, first + n_cols);
        std::partial_sort(sorted.begin(), sorted.begin() + k, sorted.end(), std::greater<float>());
        for (int64_t i = 0; i < k; ++i) {
            worst = std::max(worst, std::abs(values[row * k + i] * sum / std::exp(sorted[i] - m) - 1));
            if (first[indices[row * k + i]] != sorted[i]) return std::fprintf(stderr, "another column\n"), 1;
        }
    }
    std::printf("greatest relative error %.1e\n", worst);

    const int status = softmax_topk_float32_cuda(nullptr, n_cols, values_there, indices_there, n_rows, n_cols, stream);
    std::printf("a null pointer: status %d, %s\n", status, softmax_topk_error());
    return worst < 1e-5 && status == SOFTMAX_TOPK_BAD_ARGUMENT ? 0 : 1;
}
