#pragma once

namespace fusegen {

// 1 / (1 + e^-a); below 0 as e^a / (1 + e^a), which stays a number where e^-a is infinite
__device__ __forceinline__ float sigmoid(float a)
{
    const float t = exp(-fabsf(a));
    return (a < 0 ? t : 1) / (1 + t);
}
__device__ __forceinline__ double sigmoid(double a)
{
    const double t = exp(-fabs(a));
    return (a < 0 ? t : 1) / (1 + t);
}

}  // namespace fusegen
