// Rows of arrays on a GPU, as a step of a program that XLA compiled: launches, queued on its stream.
//
//   fusegen_learn(key, words, count)   a run: see `Plan::read`, and record.py of the backend
//   fusegen_run                        XLA's handler
//
// The driver's functions are told with each run: nothing is linked, no header of CUDA's is needed.
// The host waits for nothing, so that XLA may capture a call into a graph.
#include "cuda/launch.hpp"
#include "xla/records.hpp"

#include <atomic>
#include <cstring>

namespace fusegen {
namespace {

struct Driver {
    LaunchKernel launch;
    int (*fill)(unsigned long long at, unsigned char value, size_t bytes, void* stream);
    int (*context_of)(void* stream, void** context);
    int (*push)(void* context);
    int (*pop)(void** context);
    int (*name)(int code, const char** text);
};

// What the driver writes for the copy engine of sm_90, of an array at one address: see tensor_maps.py.
struct alignas(64) Map { unsigned char bytes[128]; };

using Encode = int (*)(void* map, int type, unsigned rank, void* at, const uint64_t* sizes, const uint64_t* apart,
                       const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promote,
                       int outside);

struct Tiled {
    Encode encode;
    int64_t pointer, type, modes[4];
    uint64_t sizes[3], apart[2];
    uint32_t box[3];

    static Tiled read(Encode encode, Numbers& given)
    {
        Tiled made{};
        made.encode = encode, made.pointer = given.next(), made.type = given.next();
        for (uint64_t& one : made.sizes) one = static_cast<uint64_t>(given.next());
        for (uint64_t& one : made.apart) one = static_cast<uint64_t>(given.next());
        for (int i = 0; i < 2; ++i) made.box[i] = static_cast<uint32_t>(given.next());
        for (int64_t& one : made.modes) one = given.next();
        made.box[2] = 1;
        return made;
    }

    int write(Map& map, void* at) const
    {
        const uint32_t steps[3] = {1, 1, 1};
        if (!sizes[0] || !sizes[1] || !sizes[2]) return 0;  // nothing is copied
        return encode(map.bytes, static_cast<int>(type), 3, at, sizes, apart, box, steps, static_cast<int>(modes[0]),
                      static_cast<int>(modes[1]), static_cast<int>(modes[2]), static_cast<int>(modes[3]));
    }
};

struct Launch {
    Geometry shape;
    std::vector<Place> pointers;
    std::vector<int64_t> numbers;
    std::vector<Tiled> tiled;

    int run(const Driver& driver, const Buffers& buffers, void* stream) const
    {
        std::vector<char*> given;
        for (const Place& one : pointers)  // or a scalar of the call, in no buffer
            given.push_back(one.buffer < 0 ? reinterpret_cast<char*>(one.offset) : buffers[one]);
        std::vector<int64_t> rest = numbers;
        std::vector<void*> arguments;
        for (char*& one : given) arguments.push_back(&one);
        for (int64_t& one : rest) arguments.push_back(&one);
        std::vector<Map> maps(tiled.size());
        for (size_t i = 0; i < tiled.size(); ++i) {
            if (const int code = tiled[i].write(maps[i], given[tiled[i].pointer])) return code;
            arguments.push_back(&maps[i]);
        }
        return shape.launch(driver.launch, stream, arguments.data());
    }
};

struct Plan {
    void* context;  // the device's
    Driver driver;
    int64_t arrays;
    std::vector<std::pair<int64_t, int64_t>> zeroed;  // bytes of the workspace: from, how many
    std::vector<Launch> launches;

    const void* device() const { return context; }

    void read(Numbers& given)
    {
        context = given.address<void*>();
        driver.launch = given.address<decltype(driver.launch)>();
        driver.fill = given.address<decltype(driver.fill)>();
        driver.context_of = given.address<decltype(driver.context_of)>();
        driver.push = given.address<decltype(driver.push)>();
        driver.pop = given.address<decltype(driver.pop)>();
        driver.name = given.address<decltype(driver.name)>();
        arrays = given.next();
        for (int64_t n = given.count(); n > 0; --n) {
            const int64_t from = given.next();
            zeroed.push_back({from, given.next()});
        }
        for (int64_t n = given.count(); n > 0; --n) launches.push_back(launch(given));
    }

    static Launch launch(Numbers& given)
    {
        Launch made{};
        made.shape.function = given.address<void*>();
        made.shape.grid = static_cast<unsigned>(given.next());
        made.shape.threads = static_cast<unsigned>(given.next());
        made.shape.shared = static_cast<unsigned>(given.next());
        made.shape.cluster = static_cast<unsigned>(given.next());
        made.shape.together = given.next() != 0;
        made.pointers = read_places(given);
        for (int64_t n = given.count(); n > 0; --n) made.numbers.push_back(given.next());
        if (int64_t n = given.count())
            for (const auto encode = given.address<Encode>(); n > 0; --n)
                made.tiled.push_back(Tiled::read(encode, given));
        return made;
    }

    int run(const Buffers& buffers, void* stream) const
    {
        for (const auto& [from, count] : zeroed) {
            const auto at = reinterpret_cast<unsigned long long>(buffers[{arrays, from}]);
            if (const int code = driver.fill(at, 0, static_cast<size_t>(count), stream)) return code;
        }
        for (const Launch& one : launches)
            if (const int code = one.run(driver, buffers, stream)) return code;
        return 0;
    }
};

Records<Plan> records;
std::atomic<const Driver*> known{nullptr};  // any run's: they all have the same

ffi::Error failed(const char* what, int code)
{
    const char* name = nullptr;
    known.load()->name(code, &name);
    return ffi::Error(ffi::ErrorCode::kInternal,
                      std::string("fusegen, ") + what + ": " + (name ? name : "an unknown error"));
}

ffi::Error run(void* stream, ffi::RemainingArgs args, ffi::RemainingRets results,
               std::string_view key)
{
    void* context = nullptr;
    const Driver* driver = known.load();
    if (!driver) return unknown(key);
    if (const int code = driver->context_of(stream, &context)) return failed("its device", code);
    const auto plan = records.find(key, context);
    if (!plan) return unknown(key);
    const Buffers buffers(args, results, plan->arrays);
    if (!buffers.fit()) return unknown(key);
    if (!buffers.aligned()) return misplaced();
    if (const int code = driver->push(context)) return failed("its device", code);
    const int code = plan->run(buffers, stream);
    driver->pop(&context);
    return code ? failed("launching, or a kernel before", code) : ffi::Error::Success();
}

}  // namespace
}  // namespace fusegen

extern "C" __attribute__((visibility("default"))) int fusegen_learn(
    const char* key, const int64_t* words, int64_t count)
{
    using namespace fusegen;
    Plan plan;
    Numbers numbers(words, count);
    plan.read(numbers);
    if (!numbers.all_read()) return 0;
    const Driver* before = known.load();  // it stays: another thread may be using it
    if (!before || std::memcmp(before, &plan.driver, sizeof plan.driver))
        known.store(new Driver(plan.driver));
    return records.learn(key, words, count);
}

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(fusegen_run, fusegen::run,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<void*>>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("key"),
                              {xla::ffi::Traits::kCmdBufferCompatible});
#pragma GCC visibility pop
