#pragma once

#include <unistd.h>

namespace penstock::testing {

/// Ends the process with SIGALRM if a test hangs. It only limits a hang: no test depends on a
/// duration.
class Watchdog {
public:
    explicit Watchdog(unsigned seconds = 60) { ::alarm(seconds); }
    ~Watchdog() { ::alarm(0); }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
};

} // namespace penstock::testing
