#pragma once

#include <unistd.h>

namespace penstock::testing {

/// Ends the process with SIGALRM when a test waits for a wake-up that never comes. Only a bound on
/// a hang: no test depends on how long anything takes.
class Watchdog {
public:
    explicit Watchdog(unsigned seconds = 60) { ::alarm(seconds); }
    ~Watchdog() { ::alarm(0); }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
};

} // namespace penstock::testing
