// How many threads a call may have by itself: FUSEGEN_THREADS, else the least of what the process
// may run on, of what its control groups have time for, and of OMP_NUM_THREADS.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace fusegen {

// Of the environment; 0: it says nothing that is a number.
inline int told(const char* name)
{
    const char* text = std::getenv(name);
    const long found = text ? std::strtol(text, nullptr, 10) : 0;
    return found < 1 ? 0 : found < 4096 ? static_cast<int>(found) : 4096;
}

// Processors that control groups (version 2) have time of; 0: there is no limit.
inline int quota()
{
    char line[4096], path[4096 + 64] = "";
    std::FILE* file = std::fopen("/proc/self/cgroup", "r");
    if (!file) return 0;
    while (std::fgets(line, sizeof line, file))
        if (std::strncmp(line, "0::", 3) == 0) {
            line[std::strcspn(line, "\n")] = 0;
            std::snprintf(path, sizeof path, "/sys/fs/cgroup%s", line + 3);
        }
    std::fclose(file);
    int least = 0;
    // From the process's own group up to the root.
    for (char* end = path; (end = std::strrchr(path, '/')) && end - path >= 8; *end = 0) {
        char name[sizeof path + 16];
        std::snprintf(name, sizeof name, "%s/cpu.max", path);
        if (std::FILE* limit = std::fopen(name, "r")) {
            double most = 0, period = 0;  // "max 100000" is no limit
            if (std::fscanf(limit, "%lf %lf", &most, &period) == 2 && period > 0) {
                const int found = static_cast<int>(most / period + 0.999);
                if (!least || found < least) least = found < 1 ? 1 : found;
            }
            std::fclose(limit);
        }
    }
    return least;
}

inline int processors()
{
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    const unsigned found = std::thread::hardware_concurrency();
    return found ? static_cast<int>(found) : 1;
}

inline int team()
{
    if (const int own = told("FUSEGEN_THREADS")) return own;
    static const int of_groups = quota();
    int least = processors();
    for (const int limit : {of_groups, told("OMP_NUM_THREADS")})
        if (limit && limit < least) least = limit;
    return least < 1 ? 1 : least;
}

}  // namespace fusegen
