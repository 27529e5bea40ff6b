// CUDA's driver, found when it is first needed: the library loads on machines that have none. What
// launchers ask of CUDA's runtime is answered by it, under the runtime's names.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <type_traits>

typedef int cudaError_t;  // the driver's numbers, of which these are the runtime's as well
constexpr cudaError_t cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorLaunchOutOfResources = 701;
typedef void* cudaStream_t;

struct __half { unsigned short bits; };
struct __nv_bfloat16 { unsigned short bits; };

struct dim3 {
    unsigned x, y, z;
    explicit dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

enum cudaLaunchAttributeID : unsigned {
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
};

struct cudaLaunchAttribute {  // CUlaunchAttribute
    cudaLaunchAttributeID id;
    unsigned pad;
    union {
        char all[64];
        int cooperative;
        struct { unsigned x, y, z; } clusterDim;
    } val;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

enum cudaDeviceAttr : int {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};
enum cudaFuncAttribute : int {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
};

namespace fusegen {

struct DriverConfig {  // CUlaunchConfig
    unsigned grid[3], block[3], shared;
    void* stream;
    cudaLaunchAttribute* attributes;
    unsigned count;
};

struct Driver {
    int (*init)(unsigned);
    int (*error_name)(int, const char**);
    int (*error_text)(int, const char**);
    int (*current)(void**);
    int (*retain)(void**, int);
    int (*make_current)(void*);
    int (*device)(int*);
    int (*attribute)(int*, int, int);
    int (*load)(void**, const void*, void*, void*, unsigned, void*, void*, unsigned);
    int (*kernel)(void**, void*, const char*);
    int (*function)(void**, void*);
    int (*allow)(void*, int, int);
    int (*blocks_at_once)(int*, void*, int, size_t);
    int (*clusters_at_once)(int*, void*, const DriverConfig*);
    int (*launch)(const DriverConfig*, void*, void**, void**);
    int (*fill)(uint64_t, unsigned char, size_t, void*);
    int (*take)(uint64_t*, size_t, void*);
    int (*give)(uint64_t, void*);
    char missing[256] = "";  // why there is none
};

inline Driver find_driver()
{
    Driver found{};
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::snprintf(found.missing, sizeof found.missing, "there is no CUDA driver: %s", dlerror());
        return found;
    }
    const auto read = [&](auto& function, const char* name) {
        void* symbol = dlsym(library, name);
        if (!symbol && !*found.missing)
            std::snprintf(found.missing, sizeof found.missing,
                          "the CUDA driver has no %s: it is older than CUDA 12", name);
        function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    };
    read(found.init, "cuInit");
    read(found.error_name, "cuGetErrorName");
    read(found.error_text, "cuGetErrorString");
    read(found.current, "cuCtxGetCurrent");
    read(found.retain, "cuDevicePrimaryCtxRetain");
    read(found.make_current, "cuCtxSetCurrent");
    read(found.device, "cuCtxGetDevice");
    read(found.attribute, "cuDeviceGetAttribute");
    read(found.load, "cuLibraryLoadData");
    read(found.kernel, "cuLibraryGetKernel");
    read(found.function, "cuKernelGetFunction");
    read(found.allow, "cuFuncSetAttribute");
    read(found.blocks_at_once, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    read(found.clusters_at_once, "cuOccupancyMaxActiveClusters");
    read(found.launch, "cuLaunchKernelEx");
    read(found.fill, "cuMemsetD8Async");
    read(found.take, "cuMemAllocAsync");
    read(found.give, "cuMemFreeAsync");
    return found;
}

inline const Driver& driver()
{
    static const Driver found = find_driver();
    return found;
}

// ---- kernels ----

// Machine code for one architecture, and PTX that newer ones translate; empty: `code` holds both.
struct Image {
    const unsigned char* code;
    const char* ptx;
    int arch;  // 90
};

// Loaded where it is first launched; good in every context from then on.
class Kernel {
public:
    Kernel(const Image& image, const char* symbol) : image_(image), symbol_(symbol) {}

    cudaError_t function(void** found) const
    {
        const Driver& cuda = driver();
        {
            std::lock_guard<std::mutex> held(lock_);
            if (!kernel_)
                if (const int error = load(cuda)) return error;
        }
        return cuda.function(found, kernel_);
    }

private:
    int load(const Driver& cuda) const
    {
        int device = 0, major = 0;
        void* library = nullptr;
        int error = cuda.device(&device);
        if (!error) error = cuda.attribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        const bool native = !*image_.ptx || major == image_.arch / 10;
        const void* image = native ? static_cast<const void*>(image_.code) : image_.ptx;
        if (!error) error = cuda.load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
        return error ? error : cuda.kernel(&kernel_, library, symbol_);
    }

    Image image_;
    const char* symbol_;
    mutable std::mutex lock_;
    mutable void* kernel_ = nullptr;
};

inline DriverConfig config_of(const cudaLaunchConfig_t& c)
{
    return {{c.gridDim.x, c.gridDim.y, c.gridDim.z}, {c.blockDim.x, c.blockDim.y, c.blockDim.z},
            static_cast<unsigned>(c.dynamicSmemBytes), c.stream, c.attrs, c.numAttrs};
}

inline cudaError_t function_of(const void* kernel, void** found)
{
    return static_cast<const Kernel*>(kernel)->function(found);
}

}  // namespace fusegen

// ---- what launchers call; kernels are given by the address of their `Kernel` ----

inline cudaError_t cudaGetDevice(int* device) { return fusegen::driver().device(device); }

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device)
{
    return fusegen::driver().attribute(value, which, device);
}

inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute which, int value)
{
    void* function = nullptr;
    const cudaError_t error = fusegen::function_of(kernel, &function);
    return error ? error : fusegen::driver().allow(function, which, value);
}

inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* found, const void* kernel, int threads, size_t shared)
{
    void* function = nullptr;
    const cudaError_t error = fusegen::function_of(kernel, &function);
    return error ? error : fusegen::driver().blocks_at_once(found, function, threads, shared);
}

inline cudaError_t cudaOccupancyMaxActiveClusters(int* found, const void* kernel, const cudaLaunchConfig_t* config)
{
    void* function = nullptr;
    const cudaError_t error = fusegen::function_of(kernel, &function);
    const fusegen::DriverConfig own = fusegen::config_of(*config);
    return error ? error : fusegen::driver().clusters_at_once(found, function, &own);
}

inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments)
{
    void* function = nullptr;
    const cudaError_t error = fusegen::function_of(kernel, &function);
    const fusegen::DriverConfig own = fusegen::config_of(*config);
    return error ? error : fusegen::driver().launch(&own, function, arguments, nullptr);
}

inline cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream)
{
    return fusegen::driver().fill(reinterpret_cast<uint64_t>(at), static_cast<unsigned char>(value), bytes, stream);
}
