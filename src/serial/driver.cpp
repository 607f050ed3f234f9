#include "serial/driver.hpp"

#include <algorithm>
#include <cerrno>

#include <asm/termbits.h>
#include <linux/serial.h>
#include <sys/file.h>
#include <sys/ioctl.h>

#include <penstock/detail/io/pollable.hpp>

namespace penstock::serial::driver {

namespace {

template <typename Argument>
Result<> control_with(int fd, unsigned long request, Argument argument) noexcept {
    const int answer =
        penstock::detail::uninterrupted([&] { return ::ioctl(fd, request, argument); });
    if (answer >= 0) {
        return {};
    }
    return errno == EIO || errno == ENXIO ? failure(std::errc::no_such_device) : last_failure();
}

Result<> lock(int fd, int kind) noexcept {
    if (::flock(fd, kind | LOCK_NB) == 0) {
        return {};
    }
    return errno == EWOULDBLOCK ? failure(std::errc::device_or_resource_busy) : last_failure();
}

struct serial_rs485 rs485_settings(const Rs485& wanted, struct serial_rs485 settings) noexcept {
    const auto flag = [&](std::uint32_t bit, bool on) {
        settings.flags = on ? settings.flags | bit : settings.flags & ~bit;
    };
    flag(SER_RS485_ENABLED, wanted.enabled);
    flag(SER_RS485_RTS_ON_SEND, wanted.rts_on_send);
    flag(SER_RS485_RTS_AFTER_SEND, wanted.rts_after_send);
    flag(SER_RS485_RX_DURING_TX, wanted.receive_during_send);
    settings.delay_rts_before_send = static_cast<std::uint32_t>(wanted.delay_before_send.count());
    settings.delay_rts_after_send = static_cast<std::uint32_t>(wanted.delay_after_send.count());
    return settings;
}

/// Whether the driver has accepted the settings. It may drop unsupported flags and limit delays.
/// For a disabled mode nothing else matters.
bool is_accepted(const struct serial_rs485& asked, const struct serial_rs485& got) noexcept {
    if ((asked.flags & SER_RS485_ENABLED) == 0) {
        return (got.flags & SER_RS485_ENABLED) == 0;
    }
    constexpr std::uint32_t ours = SER_RS485_ENABLED | SER_RS485_RTS_ON_SEND |
                                   SER_RS485_RTS_AFTER_SEND | SER_RS485_RX_DURING_TX;
    return ((asked.flags ^ got.flags) & ours) == 0 &&
           asked.delay_rts_before_send == got.delay_rts_before_send &&
           asked.delay_rts_after_send == got.delay_rts_after_send;
}

} // namespace

Result<> control(int fd, unsigned long request, void* argument) noexcept {
    return control_with(fd, request, argument);
}

Result<> control(int fd, unsigned long request, int argument) noexcept {
    return control_with(fd, request, argument);
}

Result<> as_optional_feature(Result<> answer) noexcept {
    if (!answer && (answer.error() == std::errc::inappropriate_io_control_operation ||
                    answer.error() == std::errc::invalid_argument)) {
        return failure(std::errc::operation_not_supported);
    }
    return answer;
}

Result<int> modem_bits(int fd) noexcept {
    int lines = 0;
    if (const Result<> asked = control(fd, TIOCMGET, &lines); !asked) {
        return failure(asked.error());
    }
    return lines;
}

Result<> set_line(int fd, int line, bool on) noexcept {
    return control(fd, on ? TIOCMBIS : TIOCMBIC, &line);
}

Result<std::size_t> get_count(int fd, unsigned long request) noexcept {
    int count = 0;
    if (const Result<> asked = control(fd, request, &count); !asked) {
        return failure(asked.error());
    }
    return static_cast<std::size_t>(count);
}

Result<> discard_unsent(int fd) noexcept {
    const Result<std::size_t> unsent = get_count(fd, TIOCOUTQ);
    if (unsent && *unsent == 0) {
        return {};
    }
    if (!unsent && unsent.error() == std::errc::no_such_device) {
        return failure(unsent.error());
    }
    return control(fd, TCFLSH, TCOFLUSH);
}

Result<bool> transmitter_is_empty(int fd) noexcept {
    unsigned status = 0;
    if (const Result<> asked = as_optional_feature(control(fd, TIOCSERGETLSR, &status)); !asked) {
        return failure(asked.error());
    }
    return (status & TIOCSER_TEMT) != 0;
}

std::size_t transmit_fifo(int fd) noexcept {
    struct serial_struct driver{};
    if (!control(fd, TIOCGSERIAL, &driver) || driver.xmit_fifo_size <= 0) {
        return 16; // the FIFO of a 16550, the most common UART
    }
    return static_cast<std::size_t>(std::min(driver.xmit_fifo_size, 1 << 16));
}

Result<Counters> counters(int fd) noexcept {
    struct serial_icounter_struct counts{};
    if (const Result<> asked = as_optional_feature(control(fd, TIOCGICOUNT, &counts)); !asked) {
        return failure(asked.error());
    }
    const auto count = [](int value) { return static_cast<std::uint32_t>(value); };
    return Counters{.cts = count(counts.cts),
                    .dsr = count(counts.dsr),
                    .ri = count(counts.rng),
                    .cd = count(counts.dcd),
                    .errors = {.received = count(counts.rx),
                               .sent = count(counts.tx),
                               .framing_errors = count(counts.frame),
                               .parity_errors = count(counts.parity),
                               .overruns = count(counts.overrun),
                               .buffer_overruns = count(counts.buf_overrun),
                               .breaks = count(counts.brk)}};
}

Result<> set_low_latency(int fd, bool on, std::optional<struct serial_struct>& previous) noexcept {
    if (!on && !previous) {
        return {};
    }
    struct serial_struct driver{};
    if (const Result<> asked = as_optional_feature(control(fd, TIOCGSERIAL, &driver)); !asked) {
        return asked;
    }
    if (!previous) {
        previous = driver;
    }
    constexpr int low_latency = static_cast<int>(ASYNC_LOW_LATENCY);
    driver.flags = on ? driver.flags | low_latency
                      : (driver.flags & ~low_latency) | (previous->flags & low_latency);
    return as_optional_feature(control(fd, TIOCSSERIAL, &driver));
}

Result<> set_rs485(int fd, const std::optional<Rs485>& wanted,
                   std::optional<struct serial_rs485>& previous) noexcept {
    if (!wanted && !previous) {
        return {};
    }
    struct serial_rs485 found{};
    if (const Result<> asked = as_optional_feature(control(fd, TIOCGRS485, &found)); !asked) {
        return asked;
    }
    if (!previous) {
        previous = found;
    }
    struct serial_rs485 settings = wanted ? rs485_settings(*wanted, found) : *previous;
    if (const Result<> set = as_optional_feature(control(fd, TIOCSRS485, &settings)); !set) {
        return set;
    }
    struct serial_rs485 got{};
    if (const Result<> asked = control(fd, TIOCGRS485, &got); !asked) {
        return asked;
    }
    if (wanted && !is_accepted(rs485_settings(*wanted, found), got)) {
        (void)control(fd, TIOCSRS485, &found);
        return failure(std::errc::operation_not_supported);
    }
    return {};
}

Result<> lock_exclusive(int fd) noexcept {
    if (const Result<> locked = lock(fd, LOCK_EX); !locked) {
        return locked;
    }
    return control(fd, TIOCEXCL);
}

Result<> lock_shared(int fd) noexcept {
    return lock(fd, LOCK_SH);
}

Result<> downgrade_lock(int fd) noexcept {
    if (const Result<> locked = lock_shared(fd); !locked) {
        return locked;
    }
    return control(fd, TIOCNXCL);
}

void unlock(int fd, bool exclusive) noexcept {
    if (exclusive) {
        (void)control(fd, TIOCNXCL);
    }
    (void)::flock(fd, LOCK_UN);
}

} // namespace penstock::serial::driver
