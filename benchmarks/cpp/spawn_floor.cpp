// The floor of the spawn page: posix_spawn and waitpid for several children at once.
//
// Takes the options of benchmarks/spawning.py and prints the same JSON line.

#include "clocks.hpp"
#include "load_options.hpp"

#include <cstdio>
#include <cstdlib>
#include <spawn.h>
#include <sys/wait.h>
#include <vector>

namespace {

using bench::checked;
using bench::now;

constexpr int kExitCode = 7; // of trivial_child

struct SpawnOptions : bench::DurationOptions {
    std::string child;
    std::size_t at_once = 1;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--child") {
            child = text;
        } else if (name == "--at-once") {
            at_once = bench::parse<std::size_t>(name, text);
        } else {
            return DurationOptions::take(name, text);
        }
        return true;
    }

    void check() const {
        if (child.empty() || at_once == 0) {
            throw std::invalid_argument("--child PATH is needed, and --at-once at least 1");
        }
    }
};

void spawn_and_wait(const SpawnOptions& options) {
    std::vector<pid_t> children(options.at_once);
    char* const argv[] = {const_cast<char*>(options.child.c_str()), nullptr};
    for (pid_t& child : children) {
        const int error = posix_spawn(&child, argv[0], nullptr, nullptr, argv, environ);
        if (error != 0) {
            throw std::system_error(error, std::generic_category(), options.child);
        }
    }
    for (const pid_t child : children) {
        int status = 0;
        checked(waitpid(child, &status, 0), "waitpid");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != kExitCode) {
            throw std::runtime_error("a child did not end as it should");
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    try {
        const auto options = bench::parse_options<SpawnOptions>(argc, argv);
        const bench::Nanoseconds warm = now(CLOCK_MONOTONIC) + bench::to_ns(options.warmup);
        do {
            spawn_and_wait(options);
        } while (now(CLOCK_MONOTONIC) < warm);
        std::size_t operations = 0;
        bench::TimedRegion region(0);
        region.begin();
        do {
            spawn_and_wait(options);
            operations += options.at_once;
        } while (now(CLOCK_MONOTONIC) < region.begun + bench::to_ns(options.seconds));
        region.end();
        std::printf("{\"operations\": %zu, \"seconds\": %.9f, \"cpu_seconds\": %.9f}\n", operations,
                    static_cast<double>(region.elapsed) / 1e9,
                    static_cast<double>(region.client_cpu) / 1e9);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "spawn_floor: %s\n", error.what());
        return 1;
    }
    return 0;
}
