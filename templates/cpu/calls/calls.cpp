// Calls remembered: arrays that lie like those of an earlier call are served at once.
//
//   setup(ndarray, team)                  NumPy's type; how many threads a call may have: team.hpp
//   tensors(types, exchange, is_neg, records, watchers, forward)   torch's, where it shows its memory
//   gpu_arrays(type)                      CuPy's
//   seen(array)                           what is read of one, to be held against what Python says
//   calls = Calls(otherwise, names, most, varying)   names: of parameters that are arrays; varying:
//                                         of constants of which only the magnitude is remembered
//   calls.learn(arrays, named, out, rest, plan) → bool
//   calls.vary(names)                     other constants, from now on
//   calls.find(arrays, named, out, rest)  the results, or what `otherwise` makes of the same
//
// In Python's limited API, so that one library serves all versions from 3.11 on. The interpreter's
// lock guards what is remembered; it is let go of while kernels of some length run.
#include "arrays.hpp"
#include "gpu.hpp"
#include "pages.hpp"
#include "plan.hpp"
#include "team.hpp"

#include <memory>
#include <unordered_map>

namespace fusegen {
namespace {

constexpr int64_t kLongElements = 1 << 13;  // where letting go of the interpreter's lock pays
constexpr int kMostMade = 16, kMostAddresses = 64;

Team team;

// ---- what is remembered ----

struct Made {  // a result: by a callable, or by torch's allocator
    PyObject* maker;
    std::vector<int64_t> shape;
    DLDataType type;
    DLDevice device;
};

struct Scalar { int place; double value; bool single; };  // of the call's numbers, or -1 and its own

struct Plan {
    std::vector<uint64_t> spelled;
    int64_t n_rows = 0, n_cols = 0, piece_columns = 0;
    std::vector<Step> steps;
    std::vector<Made> made;
    std::vector<int64_t> workspaces, sizes;  // bytes; of the elements of each array
    std::vector<Scalar> scalars;
    Gpu gpu;
    PyObject *finish = nullptr, *kept = nullptr;  // finish: None where there is one output

    ~Plan()
    {
        for (Made& one : made) Py_DecRef(one.maker);
        Py_DecRef(finish);
        Py_DecRef(kept);
        Py_DecRef(gpu.stream);
    }
    bool is(const Spelling& s) const
    {
        return spelled.size() == static_cast<size_t>(s.n_words) &&
               !memcmp(spelled.data(), s.words, s.n_words * sizeof(uint64_t));
    }
};
using Held = std::shared_ptr<Plan>;  // a plan may be forgotten while it runs

struct Memory {
    std::unordered_multimap<uint64_t, Held> plans;
    Held last;

    Held find(const Spelling& s)
    {
        if (last && last->is(s)) return last;
        const auto [begin, end] = plans.equal_range(s.hash());
        for (auto at = begin; at != end; ++at)
            if (at->second->is(s)) return last = at->second;
        return nullptr;
    }
};

struct Calls {
    PyObject head;
    Memory* memory;
    PyObject *otherwise, *names, *varying;
    Py_ssize_t most;

    PyObject* miss(PyObject* const* args) const
    {
        return PyObject_CallFunctionObjArgs(otherwise, args[0], args[1], args[2], args[3], nullptr);
    }
};

// ---- a plan runs ----

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
        for (const Made& one : plan_.made) {
            char* at = nullptr;
            PyObject* found = one.maker ? PyObject_CallNoArgs(one.maker) : tensor(one, at);
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
        if (plan_.gpu.launch) return plan_.gpu.queue(addresses_);
        int64_t n_bytes = 0;
        for (int64_t one : plan_.workspaces) n_bytes += whole_lines(one);
        const Room room(n_bytes);
        if (room.missing) return PyErr_NoMemory(), false;
        int64_t at = 0;
        for (int64_t one : plan_.workspaces) addresses_[n_++] = room.at(at), at += whole_lines(one);
        const int64_t elements = plan_.n_rows * plan_.n_cols;
        const bool has_parts = plan_.n_rows > 1 || plan_.n_cols > plan_.piece_columns;
        if (has_parts && elements >= 2 * kPartElements && !ask_threads(elements)) return false;
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
        const int64_t useful = elements / kPartElements;
        team_ = most < 256 ? most : 256;
        threads_ = static_cast<int>(useful < team_ ? useful : team_);
        return true;
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
        const bool in_pieces = n_rows < team_ && n_cols > plan_.piece_columns;
        const int64_t turn = in_pieces ? n_rows : kRunElements / n_cols + 1;
        for (int64_t first = 0; first < n_rows; first += turn) {
            const int64_t last = first + turn < n_rows ? first + turn : n_rows;
            PyThreadState* state = PyEval_SaveThread();
            const bool good =
                in_pieces ? run_pieces(step, words, n_rows, n_cols, plan_.piece_columns, team_)
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

// ---- plans from Python ----

bool spelled(PyObject* const* args, Py_ssize_t n, Py_ssize_t wanted, Calls& calls, Spelling& s)
{
    if (n != wanted || !PyTuple_Check(args[0]) || !PyDict_Check(args[1]))
        return PyErr_SetString(PyExc_TypeError, "(arrays, named, out, rest)"), false;
    PyObject* varying = Py_NewRef(calls.varying);  // others may change it meanwhile
    s.call(args[0], args[1], args[2], args[3], calls.names, varying);
    Py_DecRef(varying);
    return true;
}

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

// (the driver's functions that launch and tell the context, the context, stream, launches)
bool read(PyObject* given, Gpu& gpu)
{
    unsigned long long launch, current, context;
    PyObject *stream, *launches;
    if (!PyArg_ParseTuple(given, "KKKOO!", &launch, &current, &context, &stream, &PyTuple_Type,
                          &launches))
        return false;
    gpu.launch = function<LaunchKernel>(launch);
    gpu.current = function<int (*)(void**)>(current);
    gpu.context = reinterpret_cast<void*>(context), gpu.stream = Py_NewRef(stream);
    return read_all(launches, gpu.launches);
}

bool read(PyObject* given, Step& step)
{
    long long rows, scratch, begin, known;
    PyObject *words, *sweeps;
    if (!PyArg_ParseTuple(given, "LLLLO!O!", &rows, &scratch, &begin, &known, &PyTuple_Type, &words,
                          &PyTuple_Type, &sweeps))
        return false;
    step = {function<Rows>(rows), function<Scratch>(scratch), function<Begin>(begin), known, {}, {}};
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
    made = {nullptr, {}, {}, {}};
    if (!PyTuple_Check(given)) return made.maker = Py_NewRef(given), true;
    PyObject* shape;
    int code, bits, device, index;
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

// (rows, columns, columns of a piece, on a GPU?, steps or what a GPU runs, made, bytes of workspaces, sizes,
// scalars, finish, kept)
bool read(PyObject* given, Plan& plan)
{
    long long n_rows, n_cols, columns;
    PyObject *steps, *made, *workspaces, *sizes, *scalars, *finish, *kept;
    int on_gpu;
    if (!PyArg_ParseTuple(given, "LLLpO!O!O!O!O!OO", &n_rows, &n_cols, &columns, &on_gpu,
                          &PyTuple_Type, &steps, &PyTuple_Type, &made, &PyTuple_Type, &workspaces,
                          &PyTuple_Type, &sizes, &PyTuple_Type, &scalars, &finish, &kept))
        return false;
    plan.n_rows = n_rows, plan.n_cols = n_cols, plan.piece_columns = columns;
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
    for (const Made& made : plan.made) good = good && (made.maker || libraries.exchange);
    return good;
}

// ---- the type ----

Py_ssize_t length(PyObject* self)
{
    return reinterpret_cast<Calls*>(self)->memory->plans.size();
}

PyObject* learn(PyObject* self, PyObject* const* args, Py_ssize_t n)
{
    auto& calls = *reinterpret_cast<Calls*>(self);
    Spelling s;
    if (!spelled(args, n, 5, calls, s)) return nullptr;
    if (!s.ok) return Py_NewRef(Py_False);
    const Held plan = std::make_shared<Plan>();
    if (!read(args[4], *plan)) return nullptr;
    if (!fits(*plan, s)) return Py_NewRef(Py_False);
    plan->spelled.assign(s.words, s.words + s.n_words);
    Memory gone;  // freed at the end: what is freed may call Python
    if (length(self) >= calls.most) std::swap(gone, *calls.memory);
    if (!calls.memory->find(s)) calls.memory->plans.emplace(s.hash(), plan);
    return Py_NewRef(Py_True);
}

PyObject* find(PyObject* self, PyObject* const* args, Py_ssize_t n)
{
    auto& calls = *reinterpret_cast<Calls*>(self);
    Spelling s;
    if (!spelled(args, n, 4, calls, s)) return nullptr;
    const Held plan = s.ok ? calls.memory->find(s) : nullptr;
    if (!plan || s.overlaps(plan->sizes)) return calls.miss(args);
    if (plan->gpu.launch && !plan->gpu.is_current()) return calls.miss(args);
    Run run(*plan, s);
    if (!run.make() || !run.run()) return PyErr_Occurred() ? nullptr : calls.miss(args);
    return run.results(args[2]);
}

PyObject* vary(PyObject* self, PyObject* names)
{
    auto& calls = *reinterpret_cast<Calls*>(self);
    if (!PyTuple_Check(names)) return PyErr_SetString(PyExc_TypeError, "no tuple"), nullptr;
    PyObject* before = calls.varying;
    calls.varying = Py_NewRef(names);
    Py_DecRef(before);
    return Py_NewRef(Py_None);
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*)
{
    PyObject *otherwise, *names, *varying;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "OO!nO!", &otherwise, &PyTuple_Type, &names, &most, &PyTuple_Type,
                          &varying))
        return nullptr;
    auto calls = reinterpret_cast<Calls*>(PyType_GenericAlloc(type, 0));
    if (!calls) return nullptr;
    calls->memory = new Memory;
    calls->otherwise = Py_NewRef(otherwise), calls->names = Py_NewRef(names), calls->most = most;
    calls->varying = Py_NewRef(varying);
    return &calls->head;
}

int traverse(PyObject* self, visitproc visit, void* arg)
{
    auto& calls = *reinterpret_cast<Calls*>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(calls.otherwise);
    for (const auto& [hash, plan] : calls.memory->plans) {
        for (const Made& one : plan->made) Py_VISIT(one.maker);
        Py_VISIT(plan->finish);
        Py_VISIT(plan->kept);
        Py_VISIT(plan->gpu.stream);
    }
    return 0;
}

int clear(PyObject* self)
{
    auto& calls = *reinterpret_cast<Calls*>(self);
    Memory gone;
    std::swap(gone, *calls.memory);
    PyObject* otherwise = calls.otherwise;
    calls.otherwise = Py_NewRef(Py_None);
    Py_DecRef(otherwise);
    return 0;
}

void destroy(PyObject* self)
{
    auto calls = reinterpret_cast<Calls*>(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete calls->memory;
    Py_DecRef(calls->otherwise);
    Py_DecRef(calls->names);
    Py_DecRef(calls->varying);
    PyObject_GC_Del(self);
    Py_DecRef(reinterpret_cast<PyObject*>(type));
}

// ---- the module ----

PyObject* setup(PyObject*, PyObject* args)
{
    PyObject *array, *ask;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &array, &ask)) return nullptr;
    libraries.array = reinterpret_cast<PyTypeObject*>(Py_NewRef(array));
    team.ask = Py_NewRef(ask);
    return Py_NewRef(Py_None);
}

PyObject* tensors(PyObject*, PyObject* args)
{
    PyObject *types, *capsule, *is_neg, *records, *watchers, *forward;
    if (!PyArg_ParseTuple(args, "O!OOOO!O", &PyTuple_Type, &types, &capsule, &is_neg, &records,
                          &PyTuple_Type, &watchers, &forward))
        return nullptr;
    auto api = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    if (!api) return nullptr;
    if (api->major != 1 || !api->view || !api->allocate || !api->to_object)
        return Py_NewRef(Py_False);
    libraries.requires_grad = PyUnicode_InternFromString("requires_grad");
    libraries.exchange = api, libraries.is_neg = Py_NewRef(is_neg);
    libraries.records = Py_NewRef(records);
    libraries.forward = Py_NewRef(forward);
    libraries.level = PyUnicode_InternFromString("_current_level");
    Py_IncRef(capsule);
    for (Py_ssize_t i = 0; i < PyTuple_Size(watchers); ++i)
        libraries.watchers.push_back(Py_NewRef(PyTuple_GetItem(watchers, i)));
    for (Py_ssize_t i = 0; i < PyTuple_Size(types); ++i)
        libraries.tensors.push_back(
            reinterpret_cast<PyTypeObject*>(Py_NewRef(PyTuple_GetItem(types, i))));
    return Py_NewRef(Py_True);
}

PyObject* gpu_arrays(PyObject*, PyObject* type)
{
    const auto name = PyUnicode_InternFromString;
    libraries.data = name("data"), libraries.ptr = name("ptr");
    libraries.device_id = name("device_id"), libraries.shape = name("shape");
    libraries.strides = name("strides"), libraries.dtype = name("dtype");
    libraries.gpu_array = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    return Py_NewRef(Py_None);
}

PyObject* seen(PyObject*, PyObject* array)
{
    if (Py_TYPE(array) != libraries.array)
        return PyErr_SetString(PyExc_TypeError, "not NumPy's"), nullptr;
    const auto& a = *reinterpret_cast<NumpyArray*>(array);
    PyObject *shape = PyTuple_New(a.n_axes), *strides = PyTuple_New(a.n_axes);
    for (int i = 0; shape && strides && i < a.n_axes; ++i) {
        PyTuple_SetItem(shape, i, PyLong_FromSsize_t(a.shape[i]));
        PyTuple_SetItem(strides, i, PyLong_FromSsize_t(a.strides[i]));
    }
    return Py_BuildValue("KNNiCN", reinterpret_cast<unsigned long long>(a.data), shape, strides,
                         a.type->number, a.type->byteorder,
                         PyBool_FromLong(a.flags & kWriteable));
}

PyCFunction method(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t))
{
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"find", method(find), METH_FASTCALL, nullptr},
    {"learn", method(learn), METH_FASTCALL, nullptr},
    {"vary", vary, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)}, {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)}, {Py_tp_methods, methods},
    {Py_mp_length, reinterpret_cast<void*>(length)}, {0, nullptr}};

PyType_Spec spec = {"fusegen_calls.Calls", sizeof(Calls), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

PyMethodDef functions[] = {{"setup", setup, METH_VARARGS, nullptr},
                           {"tensors", tensors, METH_VARARGS, nullptr},
                           {"gpu_arrays", gpu_arrays, METH_O, nullptr},
                           {"seen", seen, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "fusegen_calls", nullptr, -1, functions,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace fusegen

PyMODINIT_FUNC PyInit_fusegen_calls()
{
    PyObject* type = PyType_FromSpec(&fusegen::spec);
    PyObject* made = type ? PyModule_Create(&fusegen::definition) : nullptr;
    if (!made || PyModule_AddObjectRef(made, "Calls", type)) return nullptr;
    Py_DecRef(type);
    return made;
}
