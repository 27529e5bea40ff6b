#include "fault_guard.h"

#include <pthread.h>
#include <ucontext.h>

#include "machine.h"

namespace simt {

namespace {

struct Fault {
    int signal;
    const void* address;
    const void* instruction;
};

Fault fault;
const FaultGuard* installed = nullptr;
pthread_t kernel_thread;  // the CPU thread that runs the launch

const char* describe(int signal) {
    switch (signal) {
        case SIGFPE: return "integer division by zero";
        case SIGILL: return "illegal instruction (__builtin_unreachable or __builtin_trap)";
        default: return "out-of-bounds access: memory fault";
    }
}

// Runs in place of the faulting instruction, on the thread's own stack.
[[noreturn]] void report_fault() {
    const Site site = {.instruction = fault.instruction};
    fail_at(site, "%s at %p", describe(fault.signal), fault.address);
}

// Only redirects the thread: returning from the handler restores the signal mask.  The thread's
// stack is dead, so reporting starts at its top, where even an overflown stack has room.
void on_fault(int signal, siginfo_t* info, void* raw_context) {
    if (machine->current == nullptr || !pthread_equal(pthread_self(), kernel_thread)) {
        installed->restore_handlers();  // not a kernel's fault: let it happen again
        return;
    }
    auto& registers = static_cast<ucontext_t*>(raw_context)->uc_mcontext.gregs;
    fault = {signal, info->si_addr, reinterpret_cast<const void*>(registers[REG_RIP])};
    registers[REG_RIP] = reinterpret_cast<greg_t>(&report_fault);
    registers[REG_RSP] = reinterpret_cast<greg_t>(stack_end(*machine->current) - sizeof(void*));
}

}  // namespace

FaultGuard::FaultGuard() : handler_stack_(64 * 1024) {
    installed = this;
    kernel_thread = pthread_self();
    stack_t stack{};
    stack.ss_sp = handler_stack_.data();
    stack.ss_size = handler_stack_.size();
    sigaltstack(&stack, &previous_stack_);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < signals.size(); ++i) {
        sigaction(signals[i], &action, &previous_actions_[i]);
    }
}

FaultGuard::~FaultGuard() {
    restore_handlers();
    sigaltstack(&previous_stack_, nullptr);
    installed = nullptr;
}

void FaultGuard::restore_handlers() const {
    for (size_t i = 0; i < signals.size(); ++i) {
        sigaction(signals[i], &previous_actions_[i], nullptr);
    }
}

}  // namespace simt
