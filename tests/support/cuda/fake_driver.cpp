// A CUDA driver that launches nothing: it notes what it is asked for, line by line.
//
// FAKE_ARCH: the GPU's, 90 unless said. FAKE_FITS: blocks that a multiprocessor holds, or clusters.
// FAKE_LAUNCH: what a launch returns. FAKE_NUMBER: which argument of a kernel is a float to be noted.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

static std::string noted;

static int number(const char* name, int usual) { return std::getenv(name) ? std::atoi(std::getenv(name)) : usual; }

template <typename... T>
static int note(const char* format, T... values)
{
    char line[512];
    std::snprintf(line, sizeof line, format, values...);
    noted += std::string(line) + "\n";
    return 0;
}

struct Attribute { unsigned id, pad, value[16]; };
struct Config { unsigned grid[3], block[3], shared; void* stream; Attribute* attributes; unsigned count; };

extern "C" {

const char* fake_noted() { return noted.c_str(); }
void fake_forget() { noted.clear(); }

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_FAKE", 0; }
int cuGetErrorString(int, const char** text) { return *text = "as the test asked", 0; }
static void* made_current = nullptr;

int cuCtxGetCurrent(void** context) { return *context = made_current, 0; }
// A context is the number of its device, from 1 on.
int cuDevicePrimaryCtxRetain(void** context, int device)
{
    *context = reinterpret_cast<void*>(intptr_t{device} + 1);
    return note("retain %d", device);
}
int cuCtxSetCurrent(void* context) { return made_current = context, note("current %d", int(intptr_t(context)) - 1); }
int cuCtxGetDevice(int* device) { return *device = int(intptr_t(made_current)) - 1, made_current ? 0 : 201; }

int cuDeviceGetAttribute(int* value, int which, int)
{
    const int arch = number("FAKE_ARCH", 90);
    *value = which == 16 ? 132 : which == 75 ? arch / 10 : arch % 10;
    return 0;
}

// An image is text: its name.
int cuLibraryLoadData(void** library, const void* image, void*, void*, unsigned, void*, void*, unsigned)
{
    *library = const_cast<void*>(image);
    return 0;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* symbol)
{
    *kernel = new std::string(std::string(static_cast<const char*>(library)) + " " + symbol);
    return 0;
}
int cuKernelGetFunction(void** function, void* kernel) { return *function = kernel, 0; }
int cuFuncSetAttribute(void*, int which, int value) { return note("allow %d %d", which, value); }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* found, void*, int, size_t) { return *found = number("FAKE_FITS", 4), 0; }
int cuOccupancyMaxActiveClusters(int* found, void*, const Config*) { return *found = number("FAKE_FITS", 16), 0; }

int cuLaunchKernelEx(const Config* c, void* function, void** arguments, void**)
{
    unsigned cluster = 1;
    for (unsigned i = 0; i < c->count; ++i)
        if (c->attributes[i].id == 4) cluster = c->attributes[i].value[0];
    note("launch %s grid %u block %u shared %u cluster %u stream %llu x %llx", static_cast<std::string*>(function)->c_str(),
         c->grid[0], c->block[0], c->shared, cluster, (unsigned long long)(uintptr_t)c->stream,
         *static_cast<unsigned long long*>(arguments[0]));
    if (const int at = number("FAKE_NUMBER", 0)) note("number %a", static_cast<double>(*static_cast<float*>(arguments[at])));
    return number("FAKE_LAUNCH", 0);
}
int cuMemsetD8Async(uint64_t, unsigned char value, size_t bytes, void*) { return note("fill %d %zu", value, bytes); }
int cuMemAllocAsync(uint64_t* at, size_t bytes, void*) { return *at = 1 << 20, note("take %zu", bytes); }
int cuMemFreeAsync(uint64_t, void*) { return note("give"); }

}  // extern "C"
