// Memory that ends where an inaccessible zone begins.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace simt {

class Mapping {
public:
    explicit Mapping(size_t bytes) : bytes_(bytes) {
        constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* pages = mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
        begin_ = pages == MAP_FAILED ? nullptr : static_cast<char*>(pages);
    }
    Mapping(Mapping&& other) : begin_(other.begin_), bytes_(other.bytes_) {
        other.begin_ = nullptr;
    }
    ~Mapping() {
        if (begin_ != nullptr) munmap(begin_, bytes_);
    }
    bool protect(size_t offset, size_t bytes, int protection) const {
        return begin_ != nullptr && mprotect(begin_ + offset, bytes, protection) == 0;
    }
    char* begin() const { return begin_; }

    // The caller's from now on.
    char* release() { return std::exchange(begin_, nullptr); }

private:
    char* begin_;
    size_t bytes_;
};

inline size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// A copy of a host buffer that ends, but for alignment, where an inaccessible zone begins.  It
// keeps the host address modulo 64, so that a kernel sees the alignment its caller sees: what begins
// as many elements after a vector of eight as another array does here, did so there.
class GuardedCopy {
public:
    GuardedCopy(const void* host, size_t bytes)
        : data_bytes_((bytes + kept + page_bytes() - 1) / page_bytes() * page_bytes()),
          mapping_(data_bytes_ + 2 * guard_bytes) {
        if (!mapping_.protect(guard_bytes, data_bytes_, PROT_READ | PROT_WRITE)) return;
        begin_ = mapping_.begin() + guard_bytes + data_bytes_ - bytes;
        begin_ -= (reinterpret_cast<uintptr_t>(begin_) - reinterpret_cast<uintptr_t>(host)) % kept;
        memcpy(begin_, host, bytes);
    }
    void make_read_only() const { mapping_.protect(guard_bytes, data_bytes_, PROT_READ); }
    char* begin() const { return begin_; }

private:
    static constexpr size_t guard_bytes = 1 << 20, kept = 64;
    size_t data_bytes_;
    Mapping mapping_;
    char* begin_ = nullptr;
};

}  // namespace simt
