// A remembered call runs: results are made, and kernels get their addresses.
#pragma once

#include "remembered.hpp"
#include "team.hpp"

namespace fusegen {
namespace {

constexpr int64_t kLongElements = 1 << 13;  // where letting go of the interpreter's lock pays

Team team;


int64_t n_bytes_of(const Made& one)
{
    int64_t n_bytes = (one.type.bits + 7) / 8;
    for (int64_t n : one.shape) n_bytes *= n;
    return n_bytes;
}

class Run {
public:
    Run(const Plan& plan, const Spelling& s) : plan_(plan)
    {
        for (int i = 0; i < s.n_arrays; ++i) addresses_[n_++] = s.spans[i].from;
        for (const Scalar& one : plan.scalars)
            addresses_[n_++] = word_of(one.place < 0 ? one.value : s.numbers[one.place], one.single);
    }
    ~Run()
    {
        for (int i = 0; i < n_made_; ++i) Py_DecRef(made_[i]);
    }
    Run(const Run&) = delete;

    // False with an exception, or without one where only a full look can tell.
    bool make()
    {
        if (!plan_.gpu.queue(addresses_, 0, plan_.gpu.early)) return false;
        for (const Made& one : plan_.made) {
            char* at = nullptr;
            PyObject* found = one.maker   ? PyObject_CallNoArgs(one.maker)
                              : one.numpy ? array(one, at)
                                          : tensor(one, at);
            if (!found) return false;
            made_[n_made_++] = found;
            if (one.maker) at = address_of(found);
            if (!at) return false;
            addresses_[n_++] = at;
        }
        return true;
    }

    // False with an exception, or without one where only a full look can tell.
    bool run()
    {
        const Gpu& gpu = plan_.gpu;
        if (gpu.launch) return gpu.queue(addresses_, gpu.early, gpu.launches.size());
        int64_t n_bytes = 0;
        for (int64_t one : plan_.workspaces) n_bytes += whole_lines(one);
        const Room room(n_bytes);
        if (room.missing) return PyErr_NoMemory(), false;
        int64_t at = 0;
        for (int64_t one : plan_.workspaces) addresses_[n_++] = room.at(at), at += whole_lines(one);
        const int64_t elements = plan_.n_rows * plan_.n_cols;
        const bool has_parts = plan_.n_rows > 1 || plan_.n_cols > piece();
        if (has_parts && elements >= kSharedElements && !ask_threads(elements)) return false;
        for (const Step& step : plan_.steps)
            if (!run(step)) return false;
        return true;
    }

    PyObject* results(PyObject* out)
    {
        if (plan_.finish == Py_None) return Py_NewRef(n_made_ ? made_[0] : out);
        PyObject* list = PyList_New(n_made_);
        if (!list) return nullptr;
        for (int i = 0; i < n_made_; ++i) PyList_SetItem(list, i, Py_NewRef(made_[i]));
        PyObject* found = PyObject_CallFunctionObjArgs(plan_.finish, list, out, nullptr);
        Py_DecRef(list);
        return found;
    }

private:
    // A scalar where kernels have addresses.
    static char* word_of(double value, bool single)
    {
        uint64_t word = 0;
        const float narrow = static_cast<float>(value);
        if (single) memcpy(&word, &narrow, sizeof narrow);
        else memcpy(&word, &value, sizeof value);
        return reinterpret_cast<char*>(word);
    }

    static PyObject* array(const Made& one, char*& at)
    {
        PyObject* found = new_array(one.shape, one.numpy);
        if (found) at = reinterpret_cast<NumpyArray*>(found)->data;
        return found;
    }

    static PyObject* tensor(const Made& one, char*& at)
    {
        DLTensor like{nullptr, one.device, static_cast<int32_t>(one.shape.size()), one.type,
                      const_cast<int64_t*>(one.shape.data()), nullptr, 0};
        DLManaged* memory = nullptr;
        void* found = nullptr;
        const auto told = [](void*, const char* kind, const char* text) {
            PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, text);
        };
        bool bad = libraries.exchange->allocate(&like, &memory, nullptr, told);
        if (!bad) {
            at = static_cast<char*>(memory->tensor.data) + memory->tensor.byte_offset;
            if (one.device.type == kHost) in_large_pages(at, n_bytes_of(one));
            bad = libraries.exchange->to_object(memory, &found);
        }
        if (bad && !PyErr_Occurred()) PyErr_NoMemory();
        return bad ? nullptr : static_cast<PyObject*>(found);
    }

    bool ask_threads(int64_t elements)
    {
        const int most = team.threads();
        if (most < 0) return false;
        team_ = most < 256 ? most : 256;
        threads_ = threads_for(elements, team_);
        return true;
    }

    // Columns of the shortest.
    int64_t piece() const
    {
        int64_t least = INT64_MAX;
        for (const Step& step : plan_.steps) least = step.piece < least ? step.piece : least;
        return least;
    }

    bool run(const Step& step)
    {
        int64_t words[kMostWords];
        int64_t* next = words;
        for (const Word& one : step.words)
            *next++ = one.address ? reinterpret_cast<int64_t>(addresses_[one.value]) : one.value;
        const auto [n_rows, n_cols] = std::pair(plan_.n_rows, plan_.n_cols);
        if (n_rows * n_cols < kLongElements)
            return run_rows(step, words, 0, n_rows, n_cols, 1) || (PyErr_NoMemory(), false);
        const bool pieces = in_pieces(step, n_rows, n_cols, team_);
        const int64_t most = step.multiple == 1 ? kRunElements : kPairElements;
        const int64_t turn = pieces ? n_rows : most / n_cols + 1;
        for (int64_t first = 0; first < n_rows; first += turn) {
            const int64_t last = first + turn < n_rows ? first + turn : n_rows;
            PyThreadState* state = PyEval_SaveThread();
            const bool good =
                pieces ? run_pieces(step, words, n_rows, n_cols, team_)
                       : run_rows(step, words, first, last, n_cols, threads_);
            PyEval_RestoreThread(state);
            if (!good) return PyErr_NoMemory(), false;
            if (last < n_rows && PyErr_CheckSignals()) return false;
        }
        return true;
    }

    const Plan& plan_;
    char* addresses_[kMostAddresses];
    int n_ = 0, n_made_ = 0, team_ = 1, threads_ = 1;
    PyObject* made_[kMostMade];
};

}  // namespace
}  // namespace fusegen
