// Wall and CPU clocks, and the timed region of a load.
#pragma once

#include "checked.hpp"

#include <cstdint>
#include <ctime>
#include <unistd.h>

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

// Wall time, and CPU time of this process and of the server, between `begin` and `end`.
class TimedRegion {
public:
    // With a `server` of 0, the server's CPU time is 0.
    explicit TimedRegion(pid_t server) : has_server_(server != 0) {
        if (has_server_) {
            if (const int error = clock_getcpuclockid(server, &server_clock_); error != 0) {
                throw std::system_error(error, std::generic_category(), "clock_getcpuclockid");
            }
        }
    }

    void begin() {
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
    Nanoseconds read_server() const { return has_server_ ? now(server_clock_) : 0; }

    bool has_server_;
    clockid_t server_clock_{};
};

} // namespace bench
