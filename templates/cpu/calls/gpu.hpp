// Kernels of a remembered call on a GPU, queued on the stream that the arrays' library works on now.
#pragma once

#include "arrays.hpp"
#include "cuda/launch.hpp"
#include "plan.hpp"

namespace fusegen {

struct Launch {
    Geometry shape;
    std::vector<Word> words;  // its arguments: pointers, scalars, numbers
};

struct Gpu {
    LaunchKernel launch = nullptr;  // null: kernels are the processor's
    int (*current)(void** context) = nullptr;
    int (*capturing)(void* stream, int* status) = nullptr;
    void* context = nullptr;
    PyObject* stream = nullptr;  // a callable: the handle of the library's current stream
    std::vector<Launch> launches;
    size_t early = 0;  // of these that take nothing of what is made: they are queued before

    // The first of the call's addresses that is of what is made.
    void tell(int64_t made)
    {
        const auto waits = [&](const Word& w) { return w.address && w.value >= made; };
        for (const Launch& one : launches) {
            for (const Word& w : one.words)
                if (waits(w)) return;
            ++early;
        }
    }

    // May this thread launch at once? In others the full look makes the device current.
    bool is_current() const
    {
        void* found = nullptr;
        return !current(&found) && found == context;
    }

    // False with an exception, or without one where the driver refuses, or a graph captures the stream: the full look
    // says why, and keeps what the graph will launch.
    bool queue(char* const* addresses, size_t first, size_t last) const
    {
        if (first == last) return true;
        const Ref handle(PyObject_CallNoArgs(stream));
        void* const queue = handle ? PyLong_AsVoidPtr(handle) : nullptr;
        int captured = 0;
        if (PyErr_Occurred() || capturing(queue, &captured) || captured) return false;
        PyThreadState* state = PyEval_SaveThread();  // a full queue waits, perhaps for Python
        bool good = true;
        for (size_t i = first; i < last; ++i) good = good && run(launches[i], addresses, queue);
        PyEval_RestoreThread(state);
        return good;
    }

private:
    bool run(const Launch& one, char* const* addresses, void* queue) const
    {
        int64_t words[kMostWords];
        void* arguments[kMostWords];
        int n = 0;
        for (const Word& w : one.words) {
            words[n] = w.address ? reinterpret_cast<int64_t>(addresses[w.value]) : w.value;
            arguments[n] = &words[n], ++n;
        }
        return !one.shape.launch(launch, queue, arguments);
    }
};

}  // namespace fusegen
