// Tensors as functions of the C ABI have arrays: their axes become rows and columns. Nothing is copied: what lies
// as no such array does is refused.
//
// Layout: DLPack's dlpack.h (DLTensor).
#pragma once

#include "text.hpp"

namespace fusegen::ffi {

struct Device { int32_t type, id; };
constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;

struct Tensor {  // DLTensor
    void* data;
    Device device;
    int32_t n_axes;
    struct { uint8_t code, bits; uint16_t lanes; } type;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

// Has it the type of array i, and the length of its vectors?
inline bool is(const Variant& variant, int i, const Tensor& t)
{
    const Type& type = variant.types[i];
    const Shape shape = variant.parameters[i].shape;
    const bool vectors = shape == Shape::row_vector || shape == Shape::column_vector;
    if (vectors && (t.n_axes < 1 || t.shape[t.n_axes - 1] != variant.parameters[i].k)) return false;
    return t.type.code == type.code && t.type.bits == type.bits && t.type.lanes == 1;
}

// The tensor's first `n_axes` axes as one: how many, and how far apart; false: they are no one axis.
inline bool one_axis(const Tensor& t, int n_axes, int64_t* count, int64_t* stride)
{
    int64_t inner = 1;
    for (int i = n_axes; i < t.n_axes; ++i) inner *= t.shape[i];
    *count = 1, *stride = inner;
    for (int i = 0; i < n_axes; ++i)
        if (t.shape[i] == 0) return *count = 0, true;
    bool first = true;
    for (int i = n_axes; i-- > 0;) {
        const int64_t step = t.strides ? t.strides[i] : *count * inner;
        if (t.shape[i] != 1) {
            if (first) *stride = step;
            else if (step != *stride * *count) return false;
            first = false;
        }
        *count *= t.shape[i];
    }
    return true;
}

inline bool neighbours(const Tensor& t)
{
    for (int i = 0; i < t.n_axes; ++i)
        if (t.shape[i] == 0) return true;  // strides of what is empty say nothing
    const int last = t.n_axes - 1;
    return !t.strides || t.shape[last] < 2 || t.strides[last] == 1;
}

inline const void* at_of(const Tensor& t) { return static_cast<const char*>(t.data) + t.byte_offset; }

// One array as the C ABI has it. Sizes are those that are known so far, or -1.
inline int given_of(const Text& text, const Parameter& p, const Tensor& t, Sizes& sizes, Given* given)
{
    const auto wrong = [&](const char* what) { return fail(kBadShape, "%s: %s %s", text.name, p.name, what); };
    const bool in_rows = p.shape == Shape::element || p.shape == Shape::list;
    const int axes = p.shape == Shape::row ? t.n_axes : t.n_axes - 1;
    if (axes < 0) return wrong("has no columns");
    if (axes < t.n_axes && !neighbours(t)) return wrong("has columns that are not neighbours in memory");
    int64_t n_rows = 1, stride = 0;
    if (!one_axis(t, axes, &n_rows, &stride)) return wrong("has rows that are not equally far apart");
    const int64_t width = axes < t.n_axes ? t.shape[axes] : 1;
    if (p.shape == Shape::per_column && n_rows != 1) return wrong("has more than one axis");
    if (p.shape == Shape::list && width != p.k) return wrong("does not have the K entries of its lists last");
    if (p.shape == Shape::element || p.shape == Shape::per_column) {
        if (sizes.n_cols >= 0 && width != sizes.n_cols) return wrong("has another number of columns");
        sizes.n_cols = width;
    }
    if (p.shape != Shape::per_column) {
        const bool broadcast = !p.output && p.shape == Shape::element && n_rows == 1;
        if (!broadcast && sizes.n_rows >= 0 && n_rows != sizes.n_rows) return wrong("has another number of rows");
        if (!broadcast) sizes.n_rows = n_rows;
        if (broadcast) stride = 0;
    }
    if (p.shape != Shape::element && n_rows > 1 && stride != (in_rows ? p.k : 1)) return wrong("is not contiguous");
    *given = {at_of(t), stride, 0, 0};
    return kOk;
}

// ---- beside vectors: leading axes broadcast against one another, as NumPy's ----

// The leading axes of all rows.
struct Lead {
    const int64_t* shape;
    int n;

    int64_t count(int first_axes) const
    {
        int64_t found = 1;
        for (int i = 0; i < first_axes; ++i) found *= shape[i];
        return found;
    }
};

inline int64_t step_of(const Tensor& t, int axis)
{
    int64_t step = 1;
    for (int i = axis + 1; i < t.n_axes; ++i) step *= t.shape[i];
    return t.strides ? t.strides[axis] : step;
}

// The tensor's first axes, the last of them at `n`, spread over as many of the lead's and taken as one: how far
// apart. False: they do not broadcast, or lie as no one axis does.
inline bool spread(const Tensor& t, int n_axes, const Lead& lead, int n, int64_t* stride)
{
    if (n_axes > n) return false;
    int64_t count = 1;
    bool first = true;
    *stride = 0;
    for (int i = n; i-- > 0;) {
        const int own = i - (n - n_axes);
        const int64_t size = own < 0 ? 1 : t.shape[own];
        if (size != 1 && size != lead.shape[i]) return false;
        const int64_t step = size == 1 ? 0 : step_of(t, own);
        if (lead.shape[i] != 1) {
            if (first) *stride = step;
            else if (step != *stride * count) return false;
            first = false;
        }
        count *= lead.shape[i];
    }
    return true;
}

// Axes that are an array's own, behind those of its rows or batches.
inline int own_axes(const Parameter& p) { return p.shape == Shape::row ? 0 : p.shape == Shape::column_vector ? 2 : 1; }

inline bool has_vectors(const Text& text, const Variant& variant)
{
    for (int i = 0; i < text.n_parameters; ++i) {
        const Shape shape = variant.parameters[i].shape;
        if (shape == Shape::row_vector || variant.parameters[i].batched()) return true;
    }
    return false;
}

// The same of one array of a text over vectors.
inline int given_over(const Text& text, const Parameter& p, const Tensor& t, const Lead& lead, Sizes& sizes, Given* given)
{
    const auto wrong = [&](const char* what) { return fail(kBadShape, "%s: %s %s", text.name, p.name, what); };
    const int own = own_axes(p), axes = t.n_axes - own;
    if (axes < 0) return wrong("has too few axes");
    if (own && !neighbours(t)) return wrong("has columns, or numbers of a vector, that are not neighbours in memory");
    const bool per_column = p.shape == Shape::element || p.shape == Shape::columns || p.shape == Shape::per_column;
    if (own && !per_column && t.shape[t.n_axes - 1] != p.k)
        return wrong("does not have the numbers of its vectors, or the K entries of its lists, last");
    if (per_column || p.shape == Shape::column_vector) {
        const int64_t n_cols = t.shape[axes];
        if (sizes.n_cols >= 0 && n_cols != sizes.n_cols) return wrong("has another number of columns");
        sizes.n_cols = n_cols;
    }
    *given = {at_of(t), p.shape == Shape::column_vector ? step_of(t, axes) : 1, 0, 0};
    if (p.shape == Shape::per_column) return axes ? wrong("has more than one axis") : kOk;
    if (p.batched()) {  // with as few batches as there can be
        const int missing = lead.n - 1 - axes;
        int shared = lead.n - 1;
        if (missing < 0) return wrong("has more leading axes than the rows");
        while (shared > 0 && (shared <= missing || t.shape[shared - 1 - missing] == 1)) --shared;
        const int64_t batches = lead.count(shared);
        given->rows = batches ? sizes.n_rows / batches : 1;
        if (!spread(t, shared > missing ? shared - missing : 0, lead, shared, &given->outer))
            return wrong("has leading axes that are no one axis of the rows'");
        return kOk;
    }
    if (!spread(t, axes, lead, lead.n, &given->stride)) return wrong("has rows that are not equally far apart");
    const bool packed = p.output || p.shape == Shape::row;
    if (packed && p.shape != Shape::element && sizes.n_rows > 1 && given->stride != p.width(sizes.n_cols))
        return wrong("is not contiguous");
    return kOk;
}

// All of a call's arrays.
inline int all_given(const Text& text, const Variant& variant, const Tensor* const* tensors, Given* given, Sizes& sizes)
{
    const int n = text.n_parameters;
    sizes = {-1, -1, 1};
    if (!has_vectors(text, variant)) {
        for (int i = 0; i < n; ++i)
            if (const int status = given_of(text, variant.parameters[i], *tensors[i], sizes, &given[i])) return status;
        if (sizes.n_rows < 0) sizes.n_rows = 1;  // one row stands alone
    } else {  // results have all axes of the rows
        const Tensor& last = *tensors[n - 1];
        const int own = own_axes(variant.parameters[n - 1]);
        if (last.n_axes < own) return fail(kBadShape, "%s: %s has no axes", text.name, variant.parameters[n - 1].name);
        const Lead lead{last.shape, last.n_axes - own};
        sizes.n_rows = lead.count(lead.n);
        if (lead.n) sizes.last_rows = lead.shape[lead.n - 1];
        for (int i = 0; i < n; ++i)
            if (const int status = given_over(text, variant.parameters[i], *tensors[i], lead, sizes, &given[i]))
                return status;
    }
    for (int i = 0; sizes.n_rows < 2 && i < n; ++i)
        if (!variant.parameters[i].batched()) given[i].stride = variant.parameters[i].width(sizes.n_cols);
    return kOk;
}

}  // namespace fusegen::ffi
