// Calls on a GPU: of the kernels for its architecture the first whose assumptions hold.
#pragma once

#include <vector>

#include "driver.hpp"
#include "text.hpp"

namespace fusegen {

// n_inner: rows that lie side by side; 1 where the columns of a row are neighbours.
struct RowSizes { int64_t n_rows, n_cols, n_inner; };

// A kernel, as its launcher takes it.
struct Entry {
    int64_t most_rows, least_columns, most_columns;  // that it was chosen for; 0: any number
    const char* (*unmet)(const Given* given, const double* scalars, const RowSizes& rows);  // null: all holds
    int (*workspace)(const RowSizes& rows, size_t* bytes);
    int (*launch)(const Given* given, const double* scalars, const RowSizes& rows, void* workspace, void* stream);
};

// Those for one architecture (90) and what is newer, in the order in which they are tried; strips:
// for rows that lie side by side.
struct Code { int arch; const Entry* entries; int n_entries; const Entry* strips; int n_strips; };

inline int refused(const Text& text, const char* what, int error)
{
    const char *name = "unknown", *said = "";
    driver().error_name(error, &name);
    driver().error_text(error, &said);
    return fail(kDriver, "%s: %s: %s (%s)", text.name, what, name ? name : "unknown", said ? said : "");
}

// This thread's context is current, the first GPU's where it has none; its architecture.
inline int arch_here(const Text& text, int* arch)
{
    const Driver& cuda = driver();
    if (*cuda.missing) return fail(kNotHere, "%s: %s", text.name, cuda.missing);
    static const int begun = cuda.init(0);
    if (begun) return refused(text, "starting CUDA", begun);
    void* context = nullptr;
    int error = cuda.current(&context), device = 0, major = 0, minor = 0;
    if (!error && !context) {
        error = cuda.retain(&context, 0);
        if (!error) error = cuda.make_current(context);
    }
    if (!error) error = cuda.device(&device);
    if (!error) error = cuda.attribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (!error) error = cuda.attribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    *arch = 10 * major + minor;
    return error ? refused(text, "asking for the GPU", error) : kOk;
}

// `work` in a context of that GPU: this thread's, where it is one, else the GPU's own.
template <typename Work>
int on_gpu_of(int wanted, const Text& text, Work work)
{
    int arch = 0, device = 0;
    if (const int status = arch_here(text, &arch)) return status;
    const Driver& cuda = driver();
    if (!cuda.device(&device) && device == wanted) return work();
    void *before = nullptr, *context = nullptr;
    int error = cuda.current(&before);
    if (!error) error = cuda.retain(&context, wanted);  // for good: it is in use
    if (!error) error = cuda.make_current(context);
    if (error) return refused(text, "asking for the tensors' GPU", error);
    const int status = work();
    cuda.make_current(before);
    return status;
}

inline int launch(const Text& text, const Entry& entry, const Given* given, const double* scalars, const RowSizes& rows,
                  size_t bytes, void* stream)
{
    const Driver& cuda = driver();
    uint64_t room = 0;
    if (bytes)
        if (const int error = cuda.take(&room, bytes, stream))
            return error == 2 ? fail(kNoMemory, "%s: the GPU has no %zu bytes beside the arrays", text.name, bytes)
                              : refused(text, "asking for memory", error);
    const int error = entry.launch(given, scalars, rows, reinterpret_cast<void*>(room), stream);
    if (bytes) cuda.give(room, stream);  // when all that was queued before has run
    return error ? refused(text, "launching", error) : kOk;
}

// The first kernel whose assumptions hold.
inline int launch_first(const Text& text, const Entry* entries, int n_entries, const Given* given,
                        const double* scalars, const RowSizes& rows, void* stream)
{
    const char* unmet = "one of its kernels";
    int error = 0;
    for (int i = 0; i < n_entries; ++i) {
        const Entry& entry = entries[i];
        if ((entry.most_rows && rows.n_rows > entry.most_rows) || rows.n_cols < entry.least_columns ||
            (entry.most_columns && rows.n_cols > entry.most_columns))
            continue;
        if (const char* why = entry.unmet(given, scalars, rows)) {
            unmet = why;
            continue;
        }
        size_t bytes = 0;
        error = entry.workspace(rows, &bytes);  // does it fit this GPU?
        if (!error) return launch(text, entry, given, scalars, rows, bytes, stream);
    }
    if (error) return refused(text, "no kernel fits this GPU", error);
    return fail(kBadShape, "%s: no kernel takes %lld rows of %lld columns; the last asks for: %s", text.name,
                static_cast<long long>(rows.n_rows), static_cast<long long>(rows.n_cols), unmet);
}

// The code for this thread's GPU.
inline int code_here(const Text& text, const std::vector<const Code*>& codes, const Code** found)
{
    int arch = 0;
    if (const int status = arch_here(text, &arch)) return status;
    for (const Code* one : codes)  // the newest first
        if (!*found && one->arch <= arch) *found = one;
    return *found ? kOk : fail(kNotHere, "%s: exported for sm_%d and newer; this GPU is sm_%d", text.name,
                               codes.back()->arch, arch);
}

inline int on_gpu(const Text& text, const Variant& variant, const std::vector<const Code*>& codes,
                  const Given* given, const double* constants, const Sizes& sizes, void* stream)
{
    double scalars[kMost];
    const Code* code = nullptr;
    int status = check_sizes(text, sizes.n_rows, sizes.n_cols);
    if (!status) status = check_constants(text, variant, constants, scalars);
    if (status || sizes.n_rows == 0) return status;
    status = check_arrays(text, variant, given, sizes);
    if (!status) status = code_here(text, codes, &code);
    if (status) return status;
    return launch_first(text, code->entries, code->n_entries, given, scalars,
                        {sizes.n_rows, sizes.n_cols, 1}, stream);
}

inline int on_gpu_side_by_side(const Text& text, const Variant& variant, const std::vector<const Code*>& codes,
                               const Given* given, const double* constants, int64_t n_outer, int64_t n_cols,
                               int64_t n_inner, void* stream)
{
    double scalars[kMost];
    const Code* code = nullptr;
    int status = check_strips(text, n_outer, n_cols, n_inner);
    if (!status) status = check_constants(text, variant, constants, scalars);
    if (status || n_outer == 0 || n_inner == 0) return status;
    status = check_strip_arrays(text, variant, given, n_outer, n_cols, n_inner);
    if (!status) status = code_here(text, codes, &code);
    if (status) return status;
    return launch_first(text, code->strips, code->n_strips, given, scalars, {n_outer * n_inner, n_cols, n_inner},
                        stream);
}

}  // namespace fusegen
