// How many threads a call may have: as Python says, asked again when what it depends on has changed.
#pragma once

#include "arrays.hpp"

#ifdef __linux__
#include <sched.h>
#endif

#include <cstdlib>
#include <string>
#include <vector>

namespace fusegen {

// `ask` of Python: () → (threads, addresses of C functions int(), callables): other libraries'.
class Team {
public:
    PyObject* ask = nullptr;

    // -1 with an exception.
    int threads()
    {
        if (!look()) return -1;
        if (seen_ == last_) return threads_;
        PyObject* found = PyObject_CallNoArgs(ask);
        if (!found) return -1;
        PyObject *functions, *callables;
        const bool good = PyArg_ParseTuple(found, "iO!O!", &threads_, &PyTuple_Type, &functions,
                                           &PyTuple_Type, &callables);
        if (good) {
            functions_.clear();
            for (Py_ssize_t i = 0; i < PyTuple_Size(functions); ++i)
                functions_.push_back(reinterpret_cast<int (*)()>(
                    PyLong_AsSsize_t(PyTuple_GetItem(functions, i))));
            PyObject* old = callables_;
            callables_ = Py_NewRef(callables);
            if (old) Py_DecRef(old);
        }
        Py_DecRef(found);
        if (!good || !look()) return -1;
        last_ = seen_;
        return threads_;
    }

private:
    // All that the answer depends on; control groups change so rarely that Python asks once.
    bool look()
    {
        seen_.clear();
        for (const char* name : {"FUSEGEN_THREADS", "OMP_NUM_THREADS"}) {
            const char* said = std::getenv(name);
            seen_.append(said ? said : "").push_back(said ? '=' : '-');
        }
#ifdef __linux__
        cpu_set_t set;
        CPU_ZERO(&set);
        sched_getaffinity(0, sizeof set, &set);
        seen_.append(reinterpret_cast<const char*>(&set), sizeof set);
#endif
        number(PyDict_Size(PySys_GetObject("modules")));  // libraries come with modules
        for (auto function : functions_) number(function());
        for (Py_ssize_t i = 0; callables_ && i < PyTuple_Size(callables_); ++i) {
            PyObject* found = PyObject_CallNoArgs(PyTuple_GetItem(callables_, i));
            if (!found) return false;
            number(PyLong_AsSsize_t(found));
            Py_DecRef(found);
        }
        return !PyErr_Occurred();
    }

    void number(Py_ssize_t value)
    {
        seen_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }

    std::string seen_, last_;
    std::vector<int (*)()> functions_;
    PyObject* callables_ = nullptr;
    int threads_ = 1;
};

}  // namespace fusegen
