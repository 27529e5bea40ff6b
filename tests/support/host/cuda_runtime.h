// What launchers ask of CUDA's runtime, on a machine without it: facts of a device that holds little,
// and launches that are written down instead of queued. tests/support/launcher.py reads them.
#pragma once

#include <stddef.h>
#include <string.h>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1) : x(x), y(1), z(1) {}
};
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorLaunchOutOfResources = 701 };
typedef struct CUstream_st* cudaStream_t;
enum { cudaDevAttrMultiProcessorCount = 16 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributeNonPortableClusterSizeAllowed = 13 };
enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2, cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    union {
        struct { unsigned x, y, z; } clusterDim;
        int cooperative;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

struct Recorded {
    const void* kernel;
    unsigned grid, threads, cluster, together;
    size_t shared;
    unsigned long long arguments[64];
};

static Recorded recorded[64];
static int recorded_count = 0;
static size_t allowed_shared = 48 << 10;
static unsigned allowed_cluster = 8;

extern "C" { int simulated_teams = 2; }  // that a device holds at once
extern "C" const Recorded* recorded_launches(int* count)
{
    *count = recorded_count;
    recorded_count = 0;
    return recorded;
}

static inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
static inline cudaError_t cudaDeviceGetAttribute(int* value, int, int) { return *value = 1, cudaSuccess; }
static inline cudaError_t cudaFuncSetAttribute(const void*, int attribute, int value)
{
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) allowed_shared = value;
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) allowed_cluster = 16;
    return cudaSuccess;
}
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* found, const void*, int, size_t)
{
    return *found = simulated_teams * 64, cudaSuccess;  // blocks; a team has at most 64
}
static inline cudaError_t cudaOccupancyMaxActiveClusters(int* found, const void*, const cudaLaunchConfig_t*)
{
    return *found = simulated_teams, cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void* at, int byte, size_t count, cudaStream_t)
{
    return memset(at, byte, count), cudaSuccess;
}
static inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments)
{
    if (config->dynamicSmemBytes > allowed_shared) return cudaErrorInvalidValue;
    Recorded& one = recorded[recorded_count++];
    one = {kernel, config->gridDim.x, config->blockDim.x, 1, 0, config->dynamicSmemBytes, {}};
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) one.cluster = config->attrs[i].val.clusterDim.x;
        if (config->attrs[i].id == cudaLaunchAttributeCooperative) one.together = 1;
    }
    if (one.cluster > allowed_cluster || one.grid % one.cluster) return cudaErrorInvalidValue;
    for (int i = 0; i < simulated_arguments(kernel); ++i) memcpy(&one.arguments[i], arguments[i], 8);
    return cudaSuccess;
}
