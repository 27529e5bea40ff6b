#pragma once

namespace fusegen {

// 1 / (1 + e^-a)
__device__ __forceinline__ float sigmoid(float a) { return 1 / (1 + exp(-a)); }
__device__ __forceinline__ double sigmoid(double a) { return 1 / (1 + exp(-a)); }

}  // namespace fusegen
