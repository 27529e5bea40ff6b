// Threads that share the parts of one call, begun when they are first needed and kept.
//
// The caller works too and can finish alone: it waits for workers that have begun, never for one
// that has yet to wake. Such a worker finds the gate shut. Sleepers are woken for what is known to be
// long, else where the first part's own time tells that what is left is worth it. A call that finds
// the pool in use, by another thread or from within, works alone. A forked child has none of its
// parent's threads and begins a pool of its own.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace fusegen {

// Part `number` of a call's work, by the thread with this number among those of the call.
typedef void (*Work)(const void* call, int64_t number, int thread);

inline void pause()
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

#if defined(__linux__) && defined(SYS_sched_setattr)
// Turns so short that a worker need not wait, once it has woken, for the end of another thread's, as
// of OpenMP's, which spin where they wait. Kernels before 6.12 do not hear it.
inline void begin_at_once()
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t turn, deadline, period;
    } own = {};
    if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) || own.policy != SCHED_OTHER) return;
    own.size = sizeof own, own.turn = 100'000;  // ns
    syscall(SYS_sched_setattr, 0, &own, 0);
}

inline int processor() { return sched_getcpu(); }

// A worker's processors: not the caller's, where one that begins at once stops the caller.
class Processors {
public:
    Processors()
    {
        if (sched_getaffinity(0, sizeof given_, &given_)) CPU_ZERO(&given_);
        chosen_ = given_;
    }

    void keep_off(int caller)
    {
        cpu_set_t now;
        if (caller < 0 || caller >= CPU_SETSIZE || sched_getcpu() != caller) return;
        if (sched_getaffinity(0, sizeof now, &now)) return;
        if (!CPU_EQUAL(&now, &chosen_)) given_ = now;  // somebody else has chosen
        chosen_ = given_;
        CPU_CLR(caller, &chosen_);
        if (!CPU_COUNT(&chosen_) || sched_setaffinity(0, sizeof chosen_, &chosen_)) chosen_ = now;
    }

private:
    cpu_set_t given_, chosen_;
};
#else
inline void begin_at_once() {}
inline int processor() { return -1; }
struct Processors { void keep_off(int) {} };
#endif

class Pool {
public:
    void run(int64_t parts, int threads, Work work, const void* call, bool is_long)
    {
        std::unique_lock<std::mutex> mine(entry_, std::try_to_lock);
        if (!mine) {
            for (int64_t i = 0; i < parts; ++i) work(call, i, 0);
            return;
        }
        provide(threads - 1);
        work_ = work, call_ = call, parts_ = parts, wanted_ = threads;
        next_.store(0);
        caller_.store(processor());
        gate_.store(kOpen);
        round_.fetch_add(1);
        if (asleep_.load() && (is_long || are_worth_waking())) {
            // A worker that saw the old round waits by the time the lock can be had.
            { std::lock_guard<std::mutex> held(sleep_); }
            wake_.notify_all();
        }
        take(0);
        gate_.fetch_and(~kOpen);
        for (int turns = 0; gate_.load(std::memory_order_acquire); ++turns)
            if (turns < kPatience) pause(); else sched_yield();
    }

private:
    static constexpr uint64_t kOpen = 1, kWorker = 2;  // of the gate: open; so many are inside
    static constexpr int kMost = 255;  // workers; fewer where the system has no more threads
    static constexpr int kPatience = 1000, kLook = 64;
    static constexpr std::chrono::microseconds kAwake{50};  // others may want the processor
    static constexpr std::chrono::microseconds kWorthWaking{20};  // of work: sleepers need 5 to 60

    void provide(int workers)
    {
        if (n_workers_ >= workers) return;
        sigset_t all, before;  // handlers are the caller's: signals go to threads that Python has
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            while (n_workers_ < workers && n_workers_ < kMost) {
                const int number = n_workers_ + 1;
                const uint64_t round = round_.load();
                std::thread([this, number, round] { live(number, round); }).detach();
                n_workers_ = number;
            }
        } catch (const std::system_error&) {
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    // Does a part; is more than so much work left?
    bool are_worth_waking()
    {
        const auto begin = std::chrono::steady_clock::now();
        const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i < parts_) work_(call_, i, 0);
        const int64_t left = parts_ - next_.load(std::memory_order_relaxed);
        return left > 0 && (std::chrono::steady_clock::now() - begin) * left > kWorthWaking;
    }

    void take(int thread)
    {
        for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;)
            work_(call_, i, thread);
    }

    void live(int number, uint64_t seen)
    {
        begin_at_once();
        Processors processors;
        for (;; seen = await(seen)) {
            processors.keep_off(caller_.load());
            uint64_t gate = gate_.load();
            bool inside = false;
            while ((gate & kOpen) && !inside)
                inside = gate_.compare_exchange_weak(gate, gate + kWorker);
            if (!inside) continue;
            if (number < wanted_) take(number);
            gate_.fetch_sub(kWorker, std::memory_order_release);
        }
    }

    // Another round than `seen`: awake for a while, then asleep.
    uint64_t await(uint64_t seen)
    {
        const auto end = std::chrono::steady_clock::now() + kAwake;
        do
            for (int i = 0; i < kLook; ++i, pause())
                if (const uint64_t round = round_.load(std::memory_order_acquire); round != seen)
                    return round;
        while (std::chrono::steady_clock::now() < end);
        std::unique_lock<std::mutex> held(sleep_);
        asleep_.fetch_add(1);
        wake_.wait(held, [&] { return round_.load() != seen; });
        asleep_.fetch_sub(1);
        return round_.load();
    }

    std::mutex entry_, sleep_;
    std::condition_variable wake_;
    int n_workers_ = 0;
    alignas(64) std::atomic<uint64_t> round_{0};
    alignas(64) std::atomic<int64_t> next_{0};
    alignas(64) std::atomic<uint64_t> gate_{0};
    std::atomic<int> asleep_{0}, caller_{-1};
    Work work_ = nullptr;
    const void* call_ = nullptr;
    int64_t parts_ = 0;
    int wanted_ = 0;
};

inline std::atomic<Pool*> the_pool{nullptr};  // never freed: its threads end with the process

// work(0) … work(parts - 1), each once, by this thread and up to threads - 1 more. is_long: is that
// known, before any of it has run?
inline void share(int64_t parts, int threads, Work work, const void* call, bool is_long = false)
{
    if (parts < 2 || threads < 2) {
        for (int64_t i = 0; i < parts; ++i) work(call, i, 0);
        return;
    }
    Pool* pool = the_pool.load(std::memory_order_acquire);
    if (!pool) {
        Pool* made = new Pool;
        if (the_pool.compare_exchange_strong(pool, made)) {
            pool = made;
            static const int told = pthread_atfork(nullptr, nullptr, [] { the_pool = nullptr; });
            (void)told;
        } else delete made;
    }
    pool->run(parts, threads, work, call, is_long);
}

}  // namespace fusegen
