// A launch by the driver's cuLaunchKernelEx, whose address is told: nothing is linked, and no header of
// CUDA's is needed.
#pragma once

namespace fusegen {

struct Attribute {  // CUlaunchAttribute
    unsigned id, pad;
    unsigned value[16];
};

struct Config {  // CUlaunchConfig
    unsigned grid[3], block[3], shared;
    void* stream;
    Attribute* attributes;
    unsigned count;
};

typedef int (*LaunchKernel)(const Config*, void* function, void** arguments, void** extra);

constexpr unsigned kCooperative = 2, kCluster = 4;  // CUlaunchAttributeID

struct Geometry {
    void* function;
    unsigned grid, threads, shared, cluster;
    bool together;  // all blocks are on the device at once

    // The driver's code; it copies the arguments.
    int launch(LaunchKernel launch, void* stream, void** arguments) const
    {
        Attribute attributes[2] = {};
        unsigned count = 0;
        if (cluster > 1) {
            Attribute& one = attributes[count++];
            one.id = kCluster, one.value[0] = cluster, one.value[1] = one.value[2] = 1;
        }
        if (together) {
            Attribute& one = attributes[count++];
            one.id = kCooperative, one.value[0] = 1;
        }
        const Config config{{grid, 1, 1}, {threads, 1, 1}, shared, stream, attributes, count};
        return launch(&config, function, arguments, nullptr);
    }
};

}  // namespace fusegen
