#pragma once

#include <system_error>

namespace penstock::io {

/// Installs a handler (SA_RESTART) that writes `signal_number` as one byte to `write_fd`, a
/// non-blocking pipe. A signal has at most one such route in the process.
///
/// Errors: EBUSY if another descriptor has the route; EINVAL for SIGKILL, SIGSTOP and numbers that
/// are no signal. Thread safe.
[[nodiscard]] std::error_code route_signal(int signal_number, int write_fd);

/// Restores the previous handler. No effect if the route is another descriptor's. Waits for
/// handlers that run on other threads: afterwards none writes to `write_fd`, which may then be
/// closed.
void unroute_signal(int signal_number, int write_fd) noexcept;

/// The same for all signals that are routed to a descriptor which is about to be closed.
void unroute_signals(int write_fd) noexcept;

} // namespace penstock::io
