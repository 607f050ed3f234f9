#pragma once

#include <system_error>

namespace penstock::io {

/// Installs a handler (SA_RESTART) that writes each `signal_number` as one byte to `write_fd`, a
/// non-blocking pipe. A signal has one such route in the process at a time.
///
/// Errors: EBUSY when another descriptor has it, EINVAL for SIGKILL, SIGSTOP and what is no signal.
/// Thread safe.
[[nodiscard]] std::error_code route_signal(int signal_number, int write_fd);

/// Restores the handler that was there before; nothing happens when the route is another descriptor's.
/// Waits for handlers that are running on other threads: nothing writes to `write_fd` afterwards, so
/// it may be closed and its number used again.
void unroute_signal(int signal_number, int write_fd) noexcept;

/// The same for all signals of a descriptor that is about to be closed.
void unroute_signals(int write_fd) noexcept;

} // namespace penstock::io
