// Threads as fibers: a stack for each, and the switch between a fiber and the scheduler.
#include "machine.h"

// The callee-saved registers go on the stack that is left; the rest is dead at a call.
asm(R"(
.text
.hidden simt_switch_stacks
.globl simt_switch_stacks
.type simt_switch_stacks, @function
simt_switch_stacks:             # (void** save_left, void* entered)
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size simt_switch_stacks, .-simt_switch_stacks
)");

extern "C" void simt_switch_stacks(void** save_left, void* entered);

namespace simt {

ThreadContext context;

namespace {

void* scheduler_stack_pointer;

[[noreturn]] void fiber_main() {
    machine->kernel(machine->arguments);
    finish_thread();
    std::abort();  // a finished fiber is never resumed
}

}  // namespace

// The frame pointer of a thread that does not run: simt_switch_stacks has saved it first.
const void* suspended_frame(const Thread& thread) {
    return static_cast<void* const*>(thread.stack_pointer)[5];
}

// Lays out a stack as simt_switch_stacks would leave it, so that the first switch enters fiber_main
// with the alignment of an ordinary call.
void* prepare_stack(char* stack_end) {
    constexpr int saved_registers = 6;
    void** top = reinterpret_cast<void**>(stack_end);
    *--top = nullptr;  // the return address of fiber_main
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int i = 0; i < saved_registers; ++i) *--top = nullptr;
    return top;
}

// Neighbours begin at different places of their pages, for the same reason as in stacks.h.
char* stack_end(const Thread& thread) {
    return thread.stack + stack_bytes - thread.index % 64 * 64;
}

void resume(Thread& thread) {
    machine->current = &thread;
    machine->accesses_in_a_row = 0;
    context = thread.context;
    simt_switch_stacks(&scheduler_stack_pointer, thread.stack_pointer);
    machine->current = nullptr;
}

void suspend() { simt_switch_stacks(&machine->current->stack_pointer, scheduler_stack_pointer); }

}  // namespace simt
