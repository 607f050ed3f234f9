#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

#include <penstock/result.hpp>
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>

struct serial_rs485;
struct serial_struct;

/// Requests to a serial driver, each one or two ioctl(2) calls.
namespace penstock::serial::driver {

/// ioctl(2), repeated while signals interrupt it. Returns `no_such_device` if the device was
/// removed.
Result<> control(int fd, unsigned long request, void* argument = nullptr) noexcept;
Result<> control(int fd, unsigned long request, int argument) noexcept;

/// Maps ENOTTY and EINVAL, the answers of a driver without a feature, to `operation_not_supported`.
[[nodiscard]] Result<> as_optional_feature(Result<> answer) noexcept;

/// TIOCM_* bits.
[[nodiscard]] Result<int> modem_bits(int fd) noexcept;
Result<> set_line(int fd, int line, bool on) noexcept;

/// The value of an ioctl that fills an int.
[[nodiscard]] Result<std::size_t> get_count(int fd, unsigned long request) noexcept;

/// Discards written bytes that were not sent. Checks first whether there are any: on a
/// pseudo-terminal a flush also discards bytes that were sent and not yet read.
Result<> discard_unsent(int fd) noexcept;

/// Whether the last bit was sent. Returns `operation_not_supported` if the driver cannot report it.
[[nodiscard]] Result<bool> transmitter_is_empty(int fd) noexcept;

/// The maximum number of bytes in the UART that the driver no longer counts.
[[nodiscard]] std::size_t transmit_fifo(int fd) noexcept;

/// The number of changes of each line, and `ErrorCounters`.
struct Counters {
    std::uint32_t cts = 0;
    std::uint32_t dsr = 0;
    std::uint32_t ri = 0;
    std::uint32_t cd = 0;
    ErrorCounters errors;
};

[[nodiscard]] Result<Counters> counters(int fd) noexcept;

/// Both set a mode and store the original one in `previous`. Without a wanted mode they restore
/// that.
Result<> set_low_latency(int fd, bool on, std::optional<serial_struct>& previous) noexcept;
Result<> set_rs485(int fd, const std::optional<Rs485>& wanted,
                   std::optional<serial_rs485>& previous) noexcept;

// TIOCEXCL prevents later opens (except by root). flock(2) works among programs that use it.
// Non-exclusive users hold it shared, so that an exclusive one detects them. All functions fail
// with device_or_resource_busy.

Result<> lock_exclusive(int fd) noexcept;
Result<> lock_shared(int fd) noexcept;

/// Turns exclusive use into shared use.
Result<> downgrade_lock(int fd) noexcept;

/// Explicit, because close(2) is not enough: a forked child shares the lock, and TIOCEXCL remains
/// while any process has the tty open.
void unlock(int fd, bool exclusive) noexcept;

} // namespace penstock::serial::driver
