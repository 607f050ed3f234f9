// Wall and CPU clocks, and the timed region of a load.
#pragma once

#include "checked.hpp"

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace bench {

using Nanoseconds = std::int64_t;

inline Nanoseconds now(clockid_t clock) {
    timespec value{};
    checked(clock_gettime(clock, &value), "clock_gettime");
    return Nanoseconds{value.tv_sec} * 1'000'000'000 + value.tv_nsec;
}

inline Nanoseconds to_ns(double seconds) {
    return static_cast<Nanoseconds>(seconds * 1e9);
}

// A process with all that it has started, and what those have started.
inline std::vector<pid_t> process_tree(pid_t root) {
    std::vector<std::pair<pid_t, pid_t>> parents; // child, parent
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const pid_t process = std::atoi(entry.path().filename().c_str());
        std::ifstream file(entry.path() / "stat");
        std::string text;
        if (process == 0 || !std::getline(file, text)) {
            continue; // no process, or one that has ended meanwhile
        }
        const std::size_t name = text.rfind(") ");
        if (name != std::string::npos && name + 4 < text.size()) {
            parents.emplace_back(process, std::atoi(text.c_str() + name + 4));
        }
    }
    std::vector<pid_t> tree{root};
    for (std::size_t i = 0; i < tree.size(); ++i) {
        for (const auto& [child, parent] : parents) {
            if (parent == tree[i]) {
                tree.push_back(child);
            }
        }
    }
    return tree;
}

// Wall time, and CPU time of this process and of the server with its children, between `begin` and
// `end`.
class TimedRegion {
public:
    // With a `server` of 0, the server's CPU time is 0. Its children are those of now.
    explicit TimedRegion(pid_t server) {
        if (server == 0) {
            return;
        }
        for (const pid_t process : process_tree(server)) {
            clockid_t clock{};
            const int error = clock_getcpuclockid(process, &clock);
            if (error == 0) {
                clocks_.push_back(clock);
            } else if (process == server) {
                throw std::system_error(error, std::generic_category(), "clock_getcpuclockid");
            }
        }
    }

    void begin() {
        // What has ended since the start was no part of the server at work.
        std::erase_if(clocks_, [](clockid_t clock) {
            timespec unused{};
            return clock_gettime(clock, &unused) != 0;
        });
        server_cpu = read_server();
        client_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        begun = now(CLOCK_MONOTONIC);
    }

    void end() {
        elapsed = now(CLOCK_MONOTONIC) - begun;
        client_cpu = now(CLOCK_PROCESS_CPUTIME_ID) - client_cpu;
        server_cpu = read_server() - server_cpu;
    }

    Nanoseconds begun = 0;
    Nanoseconds elapsed = 0;
    Nanoseconds client_cpu = 0;
    Nanoseconds server_cpu = 0;

private:
    Nanoseconds read_server() const {
        Nanoseconds sum = 0;
        for (const clockid_t clock : clocks_) {
            sum += now(clock);
        }
        return sum;
    }

    std::vector<clockid_t> clocks_;
};

} // namespace bench
