// Arrays of the libraries that are known: what compiled code sees of them.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#ifdef __linux__
#include <dlfcn.h>
#endif

#include <cstdint>
#include <cstring>
#include <vector>

namespace fusegen {

// numpy/ndarraytypes.h, the same in 1.x and 2.x
struct NumpyType {
    PyObject head;
    PyTypeObject* scalar;
    char kind, type, byteorder, flags;
    int number;
};
struct NumpyArray {
    PyObject head;
    char* data;
    int n_axes;
    Py_ssize_t *shape, *strides;
    PyObject* base;
    NumpyType* type;
    int flags;
};
constexpr int kWriteable = 0x400;
// PyArray_NewFromDescr, which takes its type over, and its place among the functions of NumPy's C API
typedef PyObject* (*NewArray)(PyTypeObject*, NumpyType*, int, const Py_ssize_t*, const Py_ssize_t*,
                              void*, int, PyObject*);
constexpr int kNewArray = 94;

// dlpack.h, version 1.3
struct DLDevice { int32_t type, id; };
struct DLDataType { uint8_t code, bits; uint16_t lanes; };
struct DLTensor {
    void* data;
    DLDevice device;
    int32_t n_axes;
    DLDataType type;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct DLManaged {
    uint32_t major, minor;
    void* context;
    void (*deleter)(DLManaged*);
    uint64_t flags;
    DLTensor tensor;
};
struct Exchange {
    uint32_t major, minor;
    void* previous;
    int (*allocate)(DLTensor*, DLManaged**, void*, void (*)(void*, const char*, const char*));
    int (*from_object)(void*, DLManaged**);
    int (*to_object)(DLManaged*, void**);
    int (*view)(void*, DLTensor*);
    int (*stream)(int32_t, int32_t, void**);
};
constexpr int32_t kHost = 1, kGpu = 2;  // kDLCPU, kDLCUDA
constexpr int kHostPhase = 16, kGpuPhase = 128;  // bytes, as PHASE in host/readers.py

// What has been said of libraries, once per process; all of it lives for ever.
struct Libraries {
    PyTypeObject *array = nullptr, *gpu_array = nullptr;  // NumPy's, CuPy's
    NewArray new_array = nullptr;
    PyObject *data, *ptr, *device_id, *shape, *strides, *dtype;  // names of CuPy's attributes
    std::vector<PyTypeObject*> tensors;
    const Exchange* exchange = nullptr;
    PyObject *requires_grad = nullptr, *is_neg = nullptr;  // the attribute's name; the method
    PyObject* records = nullptr;  // are gradients recorded?
    std::vector<PyObject*> watchers;  // must torch see every operation: modes, autocast
    void* keys = nullptr;  // the library that has the keys of this thread
    PyObject *forward = nullptr, *level = nullptr;  // forward-mode derivatives, their depth's name
};
inline Libraries libraries;

// What owns a reference, if there is one.
class Ref {
public:
    explicit Ref(PyObject* object) : object_(object) {}
    ~Ref() { Py_DecRef(object_); }
    Ref(const Ref&) = delete;
    operator PyObject*() const { return object_; }

private:
    PyObject* object_;
};

// An attribute that is a whole number; the exception stays.
inline int64_t number_in(PyObject* object, PyObject* name)
{
    const Ref found(PyObject_GetAttr(object, name));
    return found ? PyLong_AsLongLong(found) : -1;
}

inline bool is_tensor(PyTypeObject* type)
{
    for (PyTypeObject* known : libraries.tensors)
        if (type == known) return true;
    return false;
}

// One of NumPy's, packed; its numbers are whatever was there.
inline PyObject* new_array(const std::vector<int64_t>& shape, PyObject* type)
{
    static_assert(sizeof(int64_t) == sizeof(Py_ssize_t), "shapes are handed over as they are");
    return libraries.new_array(libraries.array, reinterpret_cast<NumpyType*>(Py_NewRef(type)),
                               static_cast<int>(shape.size()),
                               reinterpret_cast<const Py_ssize_t*>(shape.data()), nullptr, nullptr,
                               0, nullptr);
}

// Are the keys by which torch's dispatcher knows what this thread asks for those of a new thread? Then
// there are no modes, no autocast and no transforms. False: they are not, or cannot be seen.
inline bool has_plain_keys()
{
#ifdef __linux__
    // c10::impl::PODLocalDispatchKeySet: what differs from a new thread's, included and excluded
    static thread_local const uint64_t* mine = nullptr;
    if (!libraries.keys) return false;
    if (!mine)
        mine = static_cast<const uint64_t*>(
            dlsym(libraries.keys, "_ZN3c104impl26raw_local_dispatch_key_setE"));
    return mine && !(mine[0] | mine[1]);
#else
    return false;
#endif
}

// The memory of an array that its library has just made; null: it is none of these.
inline char* address_of(PyObject* made)
{
    if (Py_TYPE(made) == libraries.array) return reinterpret_cast<NumpyArray*>(made)->data;
    if (Py_TYPE(made) == libraries.gpu_array) {
        const Ref data(PyObject_GetAttr(made, libraries.data));
        char* at = data ? reinterpret_cast<char*>(number_in(data, libraries.ptr)) : nullptr;
        return PyErr_Occurred() ? PyErr_Clear(), nullptr : at;
    }
    DLTensor t;
    if (!is_tensor(Py_TYPE(made))) return nullptr;
    if (libraries.exchange->view(made, &t)) return PyErr_Clear(), nullptr;
    return static_cast<char*>(t.data) + t.byte_offset;
}

// Of a Python call's result: true, false, or -1 where it raised.
inline int truth(PyObject* found)
{
    if (!found) return PyErr_Clear(), -1;
    const int is = PyObject_IsTrue(found);
    Py_DecRef(found);
    if (is < 0) PyErr_Clear();
    return is;
}

}  // namespace fusegen
