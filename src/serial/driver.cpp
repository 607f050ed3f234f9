#include "serial/driver.hpp"

#include <algorithm>
#include <cerrno>

#include <asm/termbits.h>
#include <linux/serial.h>
#include <sys/file.h>
#include <sys/ioctl.h>

#include <penstock/detail/pollable.hpp>

namespace penstock::serial::driver {

namespace {

template <typename Argument>
Result<> ask_with(int fd, unsigned long request, Argument argument) noexcept {
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

/// Whether the driver has taken what it was asked for; it may leave out what it cannot do, and bound
/// delays. Of a mode that is off nothing else matters.
bool is_taken(const struct serial_rs485& asked, const struct serial_rs485& got) noexcept {
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

Result<> ask(int fd, unsigned long request, void* argument) noexcept {
    return ask_with(fd, request, argument);
}

Result<> ask(int fd, unsigned long request, int argument) noexcept {
    return ask_with(fd, request, argument);
}

Result<> as_feature(Result<> answer) noexcept {
    if (!answer && (answer.error() == std::errc::inappropriate_io_control_operation ||
                    answer.error() == std::errc::invalid_argument)) {
        return failure(std::errc::operation_not_supported);
    }
    return answer;
}

Result<int> lines(int fd) noexcept {
    int lines = 0;
    if (const Result<> asked = ask(fd, TIOCMGET, &lines); !asked) {
        return failure(asked.error());
    }
    return lines;
}

Result<> set_line(int fd, int line, bool on) noexcept {
    return ask(fd, on ? TIOCMBIS : TIOCMBIC, &line);
}

Result<std::size_t> count_of(int fd, unsigned long request) noexcept {
    int count = 0;
    if (const Result<> asked = ask(fd, request, &count); !asked) {
        return failure(asked.error());
    }
    return static_cast<std::size_t>(count);
}

Result<> discard_unsent(int fd) noexcept {
    const Result<std::size_t> unsent = count_of(fd, TIOCOUTQ);
    if (unsent && *unsent == 0) {
        return {};
    }
    if (!unsent && unsent.error() == std::errc::no_such_device) {
        return failure(unsent.error());
    }
    return ask(fd, TCFLSH, TCOFLUSH);
}

Result<bool> transmitter_is_empty(int fd) noexcept {
    unsigned status = 0;
    if (const Result<> asked = as_feature(ask(fd, TIOCSERGETLSR, &status)); !asked) {
        return failure(asked.error());
    }
    return (status & TIOCSER_TEMT) != 0;
}

std::size_t transmit_fifo(int fd) noexcept {
    struct serial_struct driver{};
    if (!ask(fd, TIOCGSERIAL, &driver) || driver.xmit_fifo_size <= 0) {
        return 16; // a 16550's, the most common one
    }
    return static_cast<std::size_t>(std::min(driver.xmit_fifo_size, 1 << 16));
}

Result<Counters> counters(int fd) noexcept {
    struct serial_icounter_struct counts{};
    if (const Result<> asked = as_feature(ask(fd, TIOCGICOUNT, &counts)); !asked) {
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
    if (const Result<> asked = as_feature(ask(fd, TIOCGSERIAL, &driver)); !asked) {
        return asked;
    }
    if (!previous) {
        previous = driver;
    }
    constexpr int low_latency = static_cast<int>(ASYNC_LOW_LATENCY);
    driver.flags = on ? driver.flags | low_latency
                      : (driver.flags & ~low_latency) | (previous->flags & low_latency);
    return as_feature(ask(fd, TIOCSSERIAL, &driver));
}

Result<> set_rs485(int fd, const std::optional<Rs485>& wanted,
                   std::optional<struct serial_rs485>& previous) noexcept {
    if (!wanted && !previous) {
        return {};
    }
    struct serial_rs485 found{};
    if (const Result<> asked = as_feature(ask(fd, TIOCGRS485, &found)); !asked) {
        return asked;
    }
    if (!previous) {
        previous = found;
    }
    struct serial_rs485 settings = wanted ? rs485_settings(*wanted, found) : *previous;
    if (const Result<> set = as_feature(ask(fd, TIOCSRS485, &settings)); !set) {
        return set;
    }
    struct serial_rs485 got{};
    if (const Result<> asked = ask(fd, TIOCGRS485, &got); !asked) {
        return asked;
    }
    if (wanted && !is_taken(rs485_settings(*wanted, found), got)) {
        (void)ask(fd, TIOCSRS485, &found);
        return failure(std::errc::operation_not_supported);
    }
    return {};
}

Result<> take_alone(int fd) noexcept {
    if (const Result<> locked = lock(fd, LOCK_EX); !locked) {
        return locked;
    }
    return ask(fd, TIOCEXCL);
}

Result<> take_beside_others(int fd) noexcept {
    return lock(fd, LOCK_SH);
}

Result<> share(int fd) noexcept {
    if (const Result<> locked = take_beside_others(fd); !locked) {
        return locked;
    }
    return ask(fd, TIOCNXCL);
}

void give_back(int fd, bool alone) noexcept {
    if (alone) {
        (void)ask(fd, TIOCNXCL);
    }
    (void)::flock(fd, LOCK_UN);
}

} // namespace penstock::serial::driver
