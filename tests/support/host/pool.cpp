// Calls of three threads at once on one pool, and of forked children: every part once.
#include "pool.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

struct Parts { std::vector<int> done; };

static void work(const void* call, int64_t number, int)
{
    auto& done = const_cast<Parts*>(static_cast<const Parts*>(call))->done;
    ++done[number];
    for (volatile int turns = 0; turns < 300; turns = turns + 1) {}
}

static void calls(int seed, int count)
{
    for (int i = 0; i < count; ++i) {
        const int parts = 2 + (i * 7 + seed) % 40;
        Parts call{std::vector<int>(parts)};
        fusegen::share(parts, 2 + (i + seed) % 5, work, &call);
        for (int times : call.done)
            if (times != 1) std::abort();
        if (i % 50 == 0) usleep(300);  // workers fall asleep
    }
}

// Does every thread of the process run where the process may, and nowhere else?
static bool are_in_place()
{
#ifdef __linux__
    cpu_set_t all, own, both;
    if (sched_getaffinity(0, sizeof all, &all)) return false;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (sched_getaffinity(std::stoi(task.path().filename()), sizeof own, &own)) continue;
        CPU_AND(&both, &all, &own);
        if (!CPU_EQUAL(&both, &own) || !CPU_COUNT(&own)) return false;
    }
#endif
    return true;
}

int main(int argc, char**)
{
    std::vector<std::thread> threads;
    for (int seed = 0; seed < 3; ++seed) threads.emplace_back(calls, seed, 1000);
    for (std::thread& one : threads) one.join();
    calls(1, 1000);
    if (!are_in_place()) return 2;
    for (int i = 0; argc > 1 && i < 10; ++i) {
        const pid_t child = fork();
        if (!child) {
            calls(i, 50);
            _exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        if (status) return 1;
        calls(i, 20);
    }
}
