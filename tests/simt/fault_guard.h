// While it lives, a hardware fault in a kernel becomes a failure of the launch.
#pragma once

#include <signal.h>

#include <array>
#include <vector>

namespace simt {

class FaultGuard {
public:
    FaultGuard();
    ~FaultGuard();
    FaultGuard(const FaultGuard&) = delete;
    void restore_handlers() const;

private:
    static constexpr std::array<int, 4> signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    std::vector<char> handler_stack_;
    stack_t previous_stack_{};
    std::array<struct sigaction, signals.size()> previous_actions_{};
};

}  // namespace simt
