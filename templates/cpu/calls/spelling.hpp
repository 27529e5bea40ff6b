// A call spelled: all that a full look would see of its arguments, in words that can be compared.
//
// Arrays of exactly NumPy's type are read by the fields that NumPy's ABI fixes, tensors of types
// that were named by DLPack's C exchange API, CuPy's by their attributes. What is not ok only a full
// look can judge.
#pragma once

#include "arrays.hpp"

namespace fusegen {

// Memory of an array: bytes from its first element to the lowest, and to the highest.
struct Span {
    char* from;
    int64_t low, high;
    bool given;  // by out=
};

class Spelling {
public:
    static constexpr int kMostWords = 128, kMostArrays = 24, kMostAxes = 16, kMostNumbers = 16;

    bool ok = true, is_more = false;  // is a tensor more than memory: recorded, negated, watched?
    int n_words = 0, n_arrays = 0, n_numbers = 0;
    uint64_t words[kMostWords];
    Span spans[kMostArrays];
    double numbers[kMostNumbers];  // constants that vary, in their order

    void call(PyObject* arrays, PyObject* named, PyObject* out, PyObject* rest, PyObject* names,
              PyObject* varying)
    {
        constant(rest);
        const Py_ssize_t n = PyTuple_Size(arrays);
        word(n);
        for (Py_ssize_t i = 0; ok && i < n; ++i) array(PyTuple_GetItem(arrays, i), false);
        PyObject *name, *value;
        for (Py_ssize_t at = 0; ok && PyDict_Next(named, &at, &name, &value);) {
            text(name);
            if (is_among(name, names)) array(value, false);
            else if (!is_among(name, varying) || !number(value)) constant(value);
        }
        if (out == Py_None) return;
        word(kOut);
        if (!PyTuple_Check(out)) return array(out, true);  // named ones are read alike
        const Py_ssize_t k = PyTuple_Size(out);
        word(k);
        for (Py_ssize_t i = 0; ok && i < k; ++i) array(PyTuple_GetItem(out, i), true);
    }

    // Does what out= gives lie within the reach of anything else? Whether it shares bytes with it
    // Python decides, which is asked then. `sizes`: of the arrays' elements.
    bool within_reach(const std::vector<int64_t>& sizes) const
    {
        for (int i = 0; i < n_arrays; ++i)
            for (int j = 0; spans[i].given && j < i; ++j)
                if (spans[i].from + spans[i].low < spans[j].from + spans[j].high + sizes[j] &&
                    spans[j].from + spans[j].low < spans[i].from + spans[i].high + sizes[i])
                    return true;
        return false;
    }

    uint64_t hash() const
    {
        uint64_t found = 0;
        for (int i = 0; i < n_words; ++i) {
            found = (found ^ words[i]) * 0x9E3779B97F4A7C15u;
            found ^= found >> 32;
        }
        return found;
    }

private:
    enum Tag : uint64_t {
        kNone = 1, kFalse, kTrue, kInt, kFloat, kText, kTuple, kOut, kNumpy, kTensor, kNumber, kCupy
    };

    static bool is_exactly(PyObject* value, PyTypeObject* type) { return Py_TYPE(value) == type; }

    void word(uint64_t value)
    {
        if (n_words == kMostWords) ok = false;
        else words[n_words++] = value;
    }

    void text(PyObject* value)
    {
        Py_ssize_t n = 0;
        const char* bytes = PyUnicode_AsUTF8AndSize(value, &n);
        if (!bytes) return PyErr_Clear(), (void)(ok = false);
        word(kText | static_cast<uint64_t>(n) << 8);
        for (Py_ssize_t i = 0; i < n; i += 8) {
            uint64_t part = 0;
            memcpy(&part, bytes + i, n - i < 8 ? n - i : 8);
            word(part);
        }
    }

    static bool is_among(PyObject* name, PyObject* names)
    {
        const Py_ssize_t n = PyTuple_Size(names);
        for (Py_ssize_t i = 0; i < n; ++i) {
            PyObject* one = PyTuple_GetItem(names, i);
            if (one == name || PyUnicode_Compare(one, name) == 0) return true;
        }
        return false;
    }

    // 1, True and 1.0 are told apart, and 0.0 and -0.0.
    void constant(PyObject* value)
    {
        if (value == Py_None) return word(kNone);
        if (value == Py_False) return word(kFalse);
        if (value == Py_True) return word(kTrue);
        if (is_exactly(value, &PyUnicode_Type)) return text(value);
        if (is_exactly(value, &PyLong_Type)) {
            int over = 0;
            const long long number = PyLong_AsLongLongAndOverflow(value, &over);
            ok = ok && !over;
            word(kInt);
            return word(static_cast<uint64_t>(number));
        }
        if (is_exactly(value, &PyFloat_Type)) {
            const double number = PyFloat_AsDouble(value);
            uint64_t bits;
            memcpy(&bits, &number, sizeof bits);
            word(kFloat);
            return word(bits);
        }
        if (!is_exactly(value, &PyTuple_Type)) return (void)(ok = false);
        const Py_ssize_t n = PyTuple_Size(value);
        word(kTuple | static_cast<uint64_t>(n) << 8);
        for (Py_ssize_t i = 0; ok && i < n; ++i) constant(PyTuple_GetItem(value, i));
    }

    // A float that 32 bits hold in full precision is told by its magnitude, as ir/varying.py has
    // it. False: it is none.
    bool number(PyObject* value)
    {
        if (!is_exactly(value, &PyFloat_Type) || n_numbers == kMostNumbers) return false;
        const double found = PyFloat_AsDouble(value), size = found < 0 ? -found : found;
        if (!(size >= 0x1p-126 && size <= 0x1.fffffep127)) return false;
        const int magnitude = size < 0x1p-13 ? 1 : size <= 0x1p13 ? 2 : 3;
        word(kNumber | static_cast<uint64_t>(magnitude) << 8 | static_cast<uint64_t>(found < 0) << 16);
        numbers[n_numbers++] = found;
        return true;
    }

    void array(PyObject* value, bool given)
    {
        if (value == Py_None) return word(kNone);
        if (n_arrays == kMostArrays) return (void)(ok = false);
        if (Py_TYPE(value) == libraries.array) return numpy(value, given);
        if (is_tensor(Py_TYPE(value))) return tensor(value, given);
        if (Py_TYPE(value) == libraries.gpu_array && cupy(value, given)) return;
        PyErr_Clear();
        ok = false;
    }

    void numpy(PyObject* value, bool given)
    {
        const auto& a = *reinterpret_cast<NumpyArray*>(value);
        if (a.type->number < 0 || (given && !(a.flags & kWriteable))) return (void)(ok = false);
        word(kNumpy | static_cast<uint64_t>(static_cast<uint8_t>(a.type->byteorder)) << 8 |
             static_cast<uint64_t>(a.type->number) << 16);
        place(a.data, a.n_axes, a.shape, a.strides, 1, kHostPhase, given);
    }

    // False, perhaps with an exception: it is another kind of array.
    bool cupy(PyObject* value, bool given)
    {
        const Ref data(PyObject_GetAttr(value, libraries.data));
        const Ref type(PyObject_GetAttr(value, libraries.dtype));
        const Ref shape(PyObject_GetAttr(value, libraries.shape));
        const Ref strides(PyObject_GetAttr(value, libraries.strides));
        if (!data || !type || !shape || !strides) return false;
        const int64_t at = number_in(data, libraries.ptr), device = number_in(data, libraries.device_id);
        const Py_ssize_t n = PyTuple_Size(shape);
        if (PyErr_Occurred() || n > kMostAxes) return false;
        int64_t sizes[kMostAxes], steps[kMostAxes];
        for (Py_ssize_t i = 0; i < n; ++i) {
            sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
            steps[i] = PyLong_AsLongLong(PyTuple_GetItem(strides, i));
        }
        const auto& kind = *reinterpret_cast<NumpyType*>(static_cast<PyObject*>(type));
        if (PyErr_Occurred() || kind.number < 0) return false;
        word(kCupy | static_cast<uint64_t>(static_cast<uint8_t>(kind.byteorder)) << 8 |
             static_cast<uint64_t>(kind.number) << 16);
        word(device);
        place(reinterpret_cast<char*>(at), static_cast<int>(n), sizes, steps, 1, kGpuPhase, given);
        return true;
    }

    void tensor(PyObject* value, bool given)
    {
        DLTensor t;
        if (!seen(value, t)) return (void)(ok = false, is_more = true);
        word(kTensor | static_cast<uint64_t>(t.type.code) << 8 |
             static_cast<uint64_t>(t.type.bits) << 16 | static_cast<uint64_t>(t.type.lanes) << 24);
        word(t.device.type | static_cast<uint64_t>(t.device.id) << 32);
        place(static_cast<char*>(t.data) + t.byte_offset, t.n_axes, t.shape, t.strides,
              t.type.bits / 8, t.device.type == kHost ? kHostPhase : kGpuPhase, given);
    }

    // Is the tensor plain memory, with nothing recorded? DLPack does not tell.
    static bool seen(PyObject* value, DLTensor& t)
    {
        if (libraries.exchange->view(value, &t)) return PyErr_Clear(), false;
        if (t.device.type != kHost && t.device.type != kGpu) return false;
        if (!t.data || (t.n_axes && !t.strides)) return false;
        if (truth(PyObject_GetAttr(value, libraries.requires_grad)) &&
            truth(PyObject_CallNoArgs(libraries.records)))
            return false;
        return !truth(PyObject_CallFunctionObjArgs(libraries.is_neg, value, nullptr)) && !watched();
    }

    // Does torch have to see every operation of this thread? See torch_watcher in host/readers.py.
    static bool watched()
    {
        if (!has_plain_keys())
            for (PyObject* one : libraries.watchers)
                if (truth(PyObject_CallNoArgs(one))) return true;
        const int64_t depth = number_in(libraries.forward, libraries.level);
        return PyErr_Occurred() ? PyErr_Clear(), true : depth >= 0;
    }

    template <class Size>
    void place(char* data, int n_axes, const Size* shape, const Size* strides, int64_t unit,
               int phase, bool given)
    {
        if (n_axes > kMostAxes) return (void)(ok = false);
        word(reinterpret_cast<uintptr_t>(data) % phase | static_cast<uint64_t>(n_axes) << 8 |
             static_cast<uint64_t>(given) << 16);
        int64_t low = 0, high = 0;
        for (int i = 0; i < n_axes; ++i) {
            const int64_t step = strides[i] * unit, reach = (shape[i] - 1) * step;
            word(shape[i]);
            word(step);
            (reach < 0 ? low : high) += reach;
        }
        spans[n_arrays++] = {data, low, high, given};
    }
};

}  // namespace fusegen
