// The common part of the task page's programs: the cost of one operation of a library.
#pragma once

#include "../clocks.hpp"
#include "../load_options.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bench {

inline std::uint64_t allocations = 0; // one thread only

struct TaskOptions {
    std::string what;
    double seconds = 0.5;
    double warmup = 0.1;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--what") {
            what = text;
        } else if (name == "--seconds") {
            seconds = parse<double>(name, text);
        } else if (name == "--warmup") {
            warmup = parse<double>(name, text);
        } else {
            return false;
        }
        return true;
    }

    void check() const {
        if (what.empty()) {
            throw std::invalid_argument("--what is needed: spawn, hop, mutex or timer");
        }
    }
};

constexpr int kBatch = 1000;

struct Work {
    std::string_view what;
    void (*batch)(); // kBatch operations
};

// A task benchmark's main(). Exit code 69: the library has no such operation.
template <std::size_t N> int run_tasks(int argc, char** argv, const std::array<Work, N>& works) {
    try {
        const auto options = parse_options<TaskOptions>(argc, argv);
        for (const Work& work : works) {
            if (work.what != options.what) {
                continue;
            }
            const Nanoseconds warm = now(CLOCK_MONOTONIC) + to_ns(options.warmup);
            do {
                work.batch();
            } while (now(CLOCK_MONOTONIC) < warm);
            std::uint64_t operations = 0;
            const std::uint64_t before = allocations;
            TimedRegion region(0);
            region.begin();
            do {
                work.batch();
                operations += kBatch;
            } while (now(CLOCK_MONOTONIC) < region.begun + to_ns(options.seconds));
            region.end();
            std::printf("{\"operations\": %llu, \"seconds\": %.9f, \"cpu_seconds\": %.9f, "
                        "\"allocations\": %llu}\n",
                        static_cast<unsigned long long>(operations),
                        static_cast<double>(region.elapsed) / 1e9,
                        static_cast<double>(region.client_cpu) / 1e9,
                        static_cast<unsigned long long>(allocations - before));
            return 0;
        }
        std::fprintf(stderr, "nothing of the kind in this library: %s\n", options.what.c_str());
        return 69;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}

// Verifies a batch: one that lost an operation ends the program.
inline void require(bool held, const char* what) {
    if (!held) {
        std::fprintf(stderr, "%s\n", what);
        std::abort();
    }
}

} // namespace bench

// Defined once per program.
void* operator new(std::size_t size) {
    ++bench::allocations;
    if (void* memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
    std::free(memory);
}
