// Runs that Python has prepared, by keys that say all that a run depends on: XLA keeps programs on
// disk, where no address of this process may stand.
#pragma once

#include <xla/ffi/api/ffi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

namespace fusegen {

namespace ffi = xla::ffi;

class Numbers {  // of a record, one after another
public:
    Numbers(const int64_t* at, int64_t count) : at_(at), end_(at + count) {}
    int64_t next() { return at_ < end_ ? *at_++ : (good_ = false, 0); }
    template <class Pointer>
    Pointer address() { return reinterpret_cast<Pointer>(static_cast<uintptr_t>(next())); }
    int64_t count() { return next(); }
    bool all_read() const { return good_ && at_ == end_; }

private:
    const int64_t *at_, *end_;
    bool good_ = true;
};

template <class Plan>
class Records {
public:
    using Plans = std::vector<std::shared_ptr<const Plan>>;  // one for each device

    // False: these are not the numbers of a plan.
    bool learn(const char* key, const int64_t* words, int64_t count)
    {
        Numbers numbers(words, count);
        auto plan = std::make_shared<Plan>();
        plan->read(numbers);
        if (!numbers.all_read()) return false;
        std::unique_lock<std::shared_mutex> held(lock_);
        Plans& known = plans_[key];
        for (auto& one : known)
            if (one->device() == plan->device()) return one = plan, true;
        known.push_back(plan);
        return true;
    }

    std::shared_ptr<const Plan> find(std::string_view key, const void* device)
    {
        std::shared_lock<std::shared_mutex> held(lock_);
        const auto found = plans_.find(key);
        if (found == plans_.end()) return nullptr;
        for (const auto& one : found->second)
            if (one->device() == device) return one;
        return nullptr;
    }

private:
    std::shared_mutex lock_;
    std::map<std::string, Plans, std::less<>> plans_;
};

// A place in memory: an argument or a result of the call, or bytes of the last result, where that is
// the workspace: what the run needs beside the arrays.
struct Place { int64_t buffer, offset; };

inline std::vector<Place> read_places(Numbers& given)
{
    std::vector<Place> places;
    for (int64_t n = given.count(); n > 0; --n) {
        const int64_t buffer = given.next();
        places.push_back({buffer, given.next()});
    }
    return places;
}

// Buffers of a call, arguments first. XLA begins them all on a boundary; what comes from elsewhere
// may not.
class Buffers {
public:
    Buffers(const ffi::RemainingArgs& args, const ffi::RemainingRets& results, int64_t arrays)
        : arrays_(static_cast<size_t>(arrays))
    {
        for (size_t i = 0; i < args.size(); ++i)
            if (auto one = args.get<ffi::AnyBuffer>(i)) at_.push_back(start(*one));
        for (size_t i = 0; i < results.size(); ++i)
            if (auto one = results.get<ffi::AnyBuffer>(i)) at_.push_back(start(**one));
        if (at_.size() == arrays_ + 1)  // it has so much more
            at_.back() += (kRoom - number(at_.back()) % kRoom) % kRoom;
    }
    bool fit() const { return at_.size() == arrays_ || at_.size() == arrays_ + 1; }
    bool aligned() const
    {
        for (const char* one : at_)
            if (number(one) % kVector) return false;
        return true;
    }
    char* operator[](const Place& p) const { return at_[p.buffer] + p.offset; }

private:
    static constexpr uintptr_t kVector = 16, kRoom = 256;
    static uintptr_t number(const char* at) { return reinterpret_cast<uintptr_t>(at); }
    static char* start(const ffi::AnyBuffer& one) { return static_cast<char*>(one.untyped_data()); }
    size_t arrays_;
    std::vector<char*> at_;
};

inline ffi::Error unknown(std::string_view key)
{
    return ffi::Error(ffi::ErrorCode::kNotFound,
                      "fusegen does not know the run " + std::string(key) +
                          " in this process: trace the function here, by jax.jit, instead of "
                          "loading what another process has exported");
}

inline ffi::Error misplaced()
{
    return ffi::Error(ffi::ErrorCode::kInvalidArgument,
                      "fusegen's kernels need arrays that begin on a multiple of 16 bytes: copy "
                      "the one that came from another library, by jnp.array(x)");
}

}  // namespace fusegen
