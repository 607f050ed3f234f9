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

/// What is asked of a serial driver, each by one ioctl(2) or two.
namespace penstock::serial::driver {

/// ioctl(2), made again when a signal interrupts it. A device that has gone is `no_such_device`.
Result<> ask(int fd, unsigned long request, void* argument = nullptr) noexcept;
Result<> ask(int fd, unsigned long request, int argument) noexcept;

/// What a driver without a feature answers (ENOTTY, EINVAL) as `operation_not_supported`.
[[nodiscard]] Result<> as_feature(Result<> answer) noexcept;

/// TIOCM_* bits.
[[nodiscard]] Result<int> lines(int fd) noexcept;
Result<> set_line(int fd, int line, bool on) noexcept;

/// What an ioctl that fills an int says.
[[nodiscard]] Result<std::size_t> count_of(int fd, unsigned long request) noexcept;

/// Drops what was written and has not left. Not without looking: on a pseudo-terminal a flush takes back
/// what the other end has not read yet, although it has left.
Result<> discard_unsent(int fd) noexcept;

/// Whether the chip has sent the last bit; `operation_not_supported` where the driver cannot tell.
[[nodiscard]] Result<bool> transmitter_is_empty(int fd) noexcept;

/// How many bytes the chip may hold of those that have left the driver.
[[nodiscard]] std::size_t transmit_fifo(int fd) noexcept;

/// How often each line has changed, and `ErrorCounters`.
struct Counters {
    std::uint32_t cts = 0;
    std::uint32_t dsr = 0;
    std::uint32_t ri = 0;
    std::uint32_t cd = 0;
    ErrorCounters errors;
};

[[nodiscard]] Result<Counters> counters(int fd) noexcept;

/// Both set a mode, and keep in `previous` what was there before the first time; without a wish they
/// return to it.
Result<> set_low_latency(int fd, bool on, std::optional<serial_struct>& previous) noexcept;
Result<> set_rs485(int fd, const std::optional<Rs485>& wanted,
                   std::optional<serial_rs485>& previous) noexcept;

// TIOCEXCL keeps out who opens it later (but for root), flock(2) who asks before he uses it, and who does
// not keep others out holds it too, shared, so that nobody takes for his own what others use. All fail
// with device_or_resource_busy.

Result<> take_alone(int fd) noexcept;
Result<> take_beside_others(int fd) noexcept;

/// From alone to beside others.
Result<> share(int fd) noexcept;

/// Explicitly, because closing is not enough: a forked child has the lock too, and TIOCEXCL stays as long
/// as anybody has the tty open.
void give_back(int fd, bool alone) noexcept;

} // namespace penstock::serial::driver
