// Plans as Python tells them: see `CpuBound.plan` and `Bound.plan` of the backends.
#pragma once

#include "remembered.hpp"

namespace fusegen {
namespace {

std::vector<int64_t> numbers(PyObject* given)
{
    std::vector<int64_t> found(PyTuple_Size(given));
    for (size_t i = 0; i < found.size(); ++i)
        found[i] = PyLong_AsLongLong(PyTuple_GetItem(given, i));
    return found;
}

template <class Function>
Function function(long long address) { return reinterpret_cast<Function>(address); }

template <class Item>
bool read_all(PyObject* given, std::vector<Item>& items);

bool read(PyObject* given, Word& word)
{
    int address;
    long long value;
    if (!PyArg_ParseTuple(given, "pL", &address, &value)) return false;
    return word = {static_cast<bool>(address), value}, true;
}

bool read(PyObject* given, Launch& launch)
{
    unsigned long long kernel;
    unsigned grid, threads, shared, cluster;
    int together;
    PyObject* words;
    if (!PyArg_ParseTuple(given, "KIIIIpO!", &kernel, &grid, &threads, &shared, &cluster, &together,
                          &PyTuple_Type, &words))
        return false;
    launch.shape = {reinterpret_cast<void*>(kernel), grid, threads, shared, cluster,
                    static_cast<bool>(together)};
    return read_all(words, launch.words);
}

// (the driver's functions that launch, tell the context and whether a stream is captured, the context, stream,
// launches)
bool read(PyObject* given, Gpu& gpu)
{
    unsigned long long launch, current, capturing, context;
    PyObject *stream, *launches;
    if (!PyArg_ParseTuple(given, "KKKKOO!", &launch, &current, &capturing, &context, &stream,
                          &PyTuple_Type, &launches))
        return false;
    gpu.launch = function<LaunchKernel>(launch);
    gpu.current = function<int (*)(void**)>(current);
    gpu.capturing = function<int (*)(void*, int*)>(capturing);
    gpu.context = reinterpret_cast<void*>(context), gpu.stream = Py_NewRef(stream);
    return read_all(launches, gpu.launches);
}

bool read(PyObject* given, Step& step)
{
    long long rows, scratch, begin, known, multiple, piece;
    PyObject *words, *sweeps;
    if (!PyArg_ParseTuple(given, "LLLLO!O!LL", &rows, &scratch, &begin, &known, &PyTuple_Type, &words,
                          &PyTuple_Type, &sweeps, &multiple, &piece))
        return false;
    step = {function<Rows>(rows), function<Scratch>(scratch), function<Begin>(begin), known, {}, {}, multiple, piece};
    if (!read_all(words, step.words)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(sweeps); ++i) {
        long long fold, finish, bytes;
        if (!PyArg_ParseTuple(PyTuple_GetItem(sweeps, i), "LLL", &fold, &finish, &bytes))
            return false;
        step.sweeps.push_back({function<Fold>(fold), function<Finish>(finish), bytes});
    }
    return true;
}

bool read(PyObject* given, Made& made)
{
    made = {nullptr, nullptr, {}, {}, {}};
    if (!PyTuple_Check(given)) return made.maker = Py_NewRef(given), true;
    PyObject *shape, *type;
    int code, bits, device, index;
    if (PyTuple_Size(given) == 2) {
        if (!PyArg_ParseTuple(given, "O!O", &PyTuple_Type, &shape, &type)) return false;
        made.shape = numbers(shape), made.numpy = Py_NewRef(type);
        return true;
    }
    if (!PyArg_ParseTuple(given, "O!iiii", &PyTuple_Type, &shape, &code, &bits, &device, &index))
        return false;
    made.shape = numbers(shape), made.device = {device, index};
    made.type = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    return true;
}

bool read(PyObject* given, Scalar& scalar)
{
    int single;
    if (!PyArg_ParseTuple(given, "idp", &scalar.place, &scalar.value, &single)) return false;
    scalar.single = single;
    return true;
}

template <class Item>
bool read_all(PyObject* given, std::vector<Item>& items)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(given); ++i) {
        Item one;
        if (!read(PyTuple_GetItem(given, i), one)) return false;
        items.push_back(std::move(one));
    }
    return true;
}

// (rows, columns, on a GPU?, steps or what a GPU runs, made, bytes of workspaces, sizes,
// scalars, finish, kept)
bool read(PyObject* given, Plan& plan)
{
    long long n_rows, n_cols;
    PyObject *steps, *made, *workspaces, *sizes, *scalars, *finish, *kept;
    int on_gpu;
    if (!PyArg_ParseTuple(given, "LLpO!O!O!O!O!OO", &n_rows, &n_cols, &on_gpu,
                          &PyTuple_Type, &steps, &PyTuple_Type, &made, &PyTuple_Type, &workspaces,
                          &PyTuple_Type, &sizes, &PyTuple_Type, &scalars, &finish, &kept))
        return false;
    plan.n_rows = n_rows, plan.n_cols = n_cols;
    plan.workspaces = numbers(workspaces), plan.sizes = numbers(sizes);
    plan.finish = Py_NewRef(finish), plan.kept = Py_NewRef(kept);
    return (on_gpu ? read(steps, plan.gpu) : read_all(steps, plan.steps)) && read_all(made, plan.made) &&
           read_all(scalars, plan.scalars) && !PyErr_Occurred();
}

bool fits(const Plan& plan, const Spelling& s)
{
    bool good = plan.made.size() <= kMostMade &&
                plan.sizes.size() == static_cast<size_t>(s.n_arrays) &&
                s.n_arrays + plan.scalars.size() + plan.made.size() + plan.workspaces.size() <=
                    kMostAddresses;
    for (const Scalar& one : plan.scalars) good = good && one.place < s.n_numbers;
    for (const Step& step : plan.steps) good = good && step.words.size() <= kMostWords;
    for (const Launch& one : plan.gpu.launches) good = good && one.words.size() <= kMostWords;
    for (const Made& made : plan.made) good = good && (made.maker || made.numpy || libraries.exchange);
    return good;
}

}  // namespace
}  // namespace fusegen
