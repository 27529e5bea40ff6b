// Calls remembered: arrays that lie like those of an earlier call are served at once.
//
//   setup(ndarray, api, team)             NumPy's type and C API; how many threads a call may have: team.hpp
//   tensors(types, exchange, is_neg, records, watchers, forward)   torch's, where it shows its memory
//   keys(library) → bool                  the handle of the one that has torch's keys of a thread; are
//                                         they seen to be a new thread's?
//   gpu_arrays(type)                      CuPy's
//   seen(array)                           what is read of one, to be held against what Python says
//   made(shape, type)                     an array of NumPy's, likewise
//   calls = Calls(otherwise, miss, names, most, varying)   names: of parameters that are arrays;
//                                         varying: of constants of which only the magnitude is
//                                         remembered
//   calls.learn(arrays, named, out, rest, plan) → bool
//   calls.vary(names)                     other constants, from now on
//   calls.find(arrays, named, out, rest)  the results, `miss` where a tensor has more to it than
//                                         memory, or what `otherwise` makes of the same
//
// In Python's limited API, so that one library serves all versions from 3.11 on. The interpreter's
// lock guards what is remembered; it is let go of while kernels of some length run.
#include "run.hpp"
#include "told.hpp"

namespace fusegen {
namespace {

// ---- the type ----

struct Calls {
    PyObject head;
    Memory* memory;
    PyObject *otherwise, *missed, *names, *varying;
    Py_ssize_t most;

    PyObject* miss(PyObject* const* args) const
    {
        return PyObject_CallFunctionObjArgs(otherwise, args[0], args[1], args[2], args[3], nullptr);
    }
};

bool spelled(PyObject* const* args, Py_ssize_t n, Py_ssize_t wanted, Calls& calls, Spelling& s)
{
    if (n != wanted || !PyTuple_Check(args[0]) || !PyDict_Check(args[1]))
        return PyErr_SetString(PyExc_TypeError, "(arrays, named, out, rest)"), false;
    PyObject* varying = Py_NewRef(calls.varying);  // others may change it meanwhile
    s.call(args[0], args[1], args[2], args[3], calls.names, varying);
    Py_DecRef(varying);
    return true;
}

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
    if (!plan->made.empty()) plan->gpu.tell(s.n_arrays + plan->scalars.size());
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
    if (s.is_more) return Py_NewRef(calls.missed);
    const Held plan = s.ok ? calls.memory->find(s) : nullptr;
    if (!plan || s.within_reach(plan->sizes)) return calls.miss(args);
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
    PyObject *otherwise, *missed, *names, *varying;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "OOO!nO!", &otherwise, &missed, &PyTuple_Type, &names, &most,
                          &PyTuple_Type, &varying))
        return nullptr;
    auto calls = reinterpret_cast<Calls*>(PyType_GenericAlloc(type, 0));
    if (!calls) return nullptr;
    calls->memory = new Memory;
    calls->otherwise = Py_NewRef(otherwise), calls->names = Py_NewRef(names), calls->most = most;
    calls->varying = Py_NewRef(varying), calls->missed = Py_NewRef(missed);
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
    Py_DecRef(calls->missed);
    Py_DecRef(calls->names);
    Py_DecRef(calls->varying);
    PyObject_GC_Del(self);
    Py_DecRef(reinterpret_cast<PyObject*>(type));
}

// ---- the module ----

PyObject* setup(PyObject*, PyObject* args)
{
    PyObject *array, *api, *ask;
    if (!PyArg_ParseTuple(args, "O!OO", &PyType_Type, &array, &api, &ask)) return nullptr;
    auto functions = static_cast<void**>(PyCapsule_GetPointer(api, nullptr));
    if (!functions) return nullptr;
    libraries.new_array = reinterpret_cast<NewArray>(functions[kNewArray]);
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

PyObject* keys(PyObject*, PyObject* library)
{
    libraries.keys = PyLong_AsVoidPtr(library);
    return PyErr_Occurred() ? nullptr : PyBool_FromLong(has_plain_keys());
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

PyObject* made(PyObject*, PyObject* args)
{
    PyObject *shape, *type;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &shape, &type)) return nullptr;
    return new_array(numbers(shape), type);
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
                           {"keys", keys, METH_O, nullptr}, {"gpu_arrays", gpu_arrays, METH_O, nullptr},
                           {"seen", seen, METH_O, nullptr}, {"made", made, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

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
