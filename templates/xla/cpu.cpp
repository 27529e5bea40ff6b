// Rows of arrays in host memory, as a step of a program that XLA compiled.
//
//   fusegen_learn(key, words, count)   a run: see `Plan::read`, and record.py of the backend
//   fusegen_run                        XLA's handler
#include "cpu/calls/plan.hpp"
#include "xla/records.hpp"

namespace fusegen {
namespace {

// A word of a kernel's struct: kind 0 is the number itself, 1 an address, 4 and 8 a scalar of so
// many bytes, which lies in a buffer of the call.
struct Argument {
    int64_t kind, value;

    int64_t word(const Buffers& buffers, const std::vector<Place>& places) const
    {
        if (kind == 0) return value;
        const char* at = buffers[places[value]];
        if (kind == 1) return reinterpret_cast<int64_t>(at);
        int64_t found = 0;
        std::memcpy(&found, at, static_cast<size_t>(kind));
        return found;
    }
};

struct Launch {
    Step step;
    std::vector<Argument> arguments;
};

struct Plan {
    int64_t n_rows, n_cols;
    int threads;
    int64_t arrays;
    std::vector<Place> places;  // what arguments mean by an address
    std::vector<Launch> launches;

    const void* device() const { return nullptr; }

    void read(Numbers& given)
    {
        n_rows = given.next(), n_cols = given.next();
        threads = static_cast<int>(given.next());
        arrays = given.next();
        places = read_places(given);
        for (int64_t n = given.count(); n > 0; --n) launches.push_back(launch(given));
    }

    static Launch launch(Numbers& given)
    {
        Launch found{};
        Step& made = found.step;
        made.rows = given.address<Rows>();
        made.scratch = given.address<Scratch>();
        made.begin = given.address<Begin>();
        made.known_bytes = given.next();
        made.piece = given.next();
        for (int64_t n = given.count(); n > 0; --n) {
            const int64_t kind = given.next();
            found.arguments.push_back({kind, given.next()});
        }
        for (int64_t n = given.count(); n > 0; --n) {
            Sweep one{};
            one.fold = given.address<Fold>();
            one.finish = given.address<Finish>();
            one.state_bytes = given.next();
            made.sweeps.push_back(one);
        }
        return found;
    }

    // False: there is no memory.
    bool run(const Buffers& buffers) const
    {
        const int team = threads_for(n_rows * n_cols, threads);
        for (const auto& [step, arguments] : launches) {
            std::vector<int64_t> words;
            for (const Argument& one : arguments) words.push_back(one.word(buffers, places));
            const bool good =
                team > 1 && in_pieces(step, n_rows, n_cols, threads)
                    ? run_pieces(step, words.data(), n_rows, n_cols, threads)
                    : run_rows(step, words.data(), 0, n_rows, n_cols, team);
            if (!good) return false;
        }
        return true;
    }
};

Records<Plan> records;

ffi::Error run(ffi::RemainingArgs args, ffi::RemainingRets results, std::string_view key)
{
    const auto plan = records.find(key, nullptr);
    if (!plan) return unknown(key);
    const Buffers buffers(args, results, plan->arrays);
    if (!buffers.fit()) return unknown(key);
    if (!buffers.aligned()) return misplaced();
    if (!plan->run(buffers))
        return ffi::Error(ffi::ErrorCode::kResourceExhausted, "there is no memory for states");
    return ffi::Error::Success();
}

}  // namespace
}  // namespace fusegen

extern "C" __attribute__((visibility("default"))) int fusegen_learn(
    const char* key, const int64_t* words, int64_t count)
{
    return fusegen::records.learn(key, words, count);
}

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(fusegen_run, fusegen::run,
                              xla::ffi::Ffi::Bind()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("key"));
#pragma GCC visibility pop
