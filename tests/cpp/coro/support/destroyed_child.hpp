// Processes whose `Child` was destroyed before they ended.
#pragma once

#include <penstock/process/detail/child_state.hpp>

#include <cerrno>

#include <sys/types.h>
#include <sys/wait.h>

namespace penstock::testing {

/// Waits for the end of a process that the destructor of its `Child` has killed, and lets the
/// library reap it. Until then the library holds its descriptor. False if the process was lost: it
/// then stays a zombie.
[[nodiscard]] inline bool is_reaped(pid_t pid) {
    const auto id = static_cast<id_t>(pid);
    siginfo_t ended{};
    if (::waitid(P_PID, id, &ended, WEXITED | WNOWAIT) == 0) { // the destructor has not reaped it
        process::detail::reap_orphans();
    }
    return ::waitid(P_PID, id, &ended, WEXITED | WNOWAIT | WNOHANG) != 0 && errno == ECHILD;
}

} // namespace penstock::testing
