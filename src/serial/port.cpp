#include <penstock/serial/port.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

// The kernel's own termios2, with its numbers for this architecture; <termios.h> has neither.
#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/serial.h>
#include <sys/file.h>
#include <sys/ioctl.h>

#include <penstock/sleep.hpp>

namespace penstock::serial {

namespace detail {

struct PreviousSettings {
    struct termios2 line{};
    std::optional<struct serial_struct> driver{};
    std::optional<struct serial_rs485> rs485{};
};

void DeletePreviousSettings::operator()(PreviousSettings* settings) const noexcept {
    delete settings;
}

namespace {

ssize_t unplugged() noexcept {
    errno = ENODEV;
    return -1;
}

ssize_t as_unplugged(ssize_t count) noexcept {
    return count < 0 && (errno == EIO || errno == ENXIO) ? unplugged() : count;
}

} // namespace

ssize_t PortCalls::read(int fd, MutableBytes into) noexcept {
    const ssize_t count = FileCalls::read(fd, into);
    return count == 0 && !into.empty() ? unplugged() : as_unplugged(count);
}

ssize_t PortCalls::read(int fd, std::span<const iovec> parts) noexcept {
    const ssize_t count = FileCalls::read(fd, parts);
    return count == 0 ? unplugged() : as_unplugged(count);
}

ssize_t PortCalls::write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept {
    return as_unplugged(FileCalls::write(fd, parts, offset));
}

} // namespace detail

namespace {

struct Rate {
    std::uint32_t bits_per_second;
    tcflag_t code;
};

// Rates with a code of their own: other programs read those back rightly, glibc's tcgetattr among them.
constexpr Rate standard_rates[] = {
    {50, B50},           {75, B75},           {110, B110},         {134, B134},
    {150, B150},         {200, B200},         {300, B300},         {600, B600},
    {1200, B1200},       {1800, B1800},       {2400, B2400},       {4800, B4800},
    {9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},
    {115200, B115200},   {230400, B230400},   {460800, B460800},   {500000, B500000},
    {576000, B576000},   {921600, B921600},   {1000000, B1000000}, {1152000, B1152000},
    {1500000, B1500000}, {2000000, B2000000}, {2500000, B2500000}, {3000000, B3000000},
    {3500000, B3500000}, {4000000, B4000000},
};

// CMSPAR's value is the same everywhere but is missing from some architectures' headers.
#ifndef CMSPAR
constexpr tcflag_t CMSPAR = 010000000000;
#endif

std::error_code check(const Options& options) noexcept {
    const bool wrong = options.baud_rate == 0 || options.byte_size < 5 || options.byte_size > 8 ||
                       (options.rs485 && (options.rs485->delay_before_send.count() < 0 ||
                                          options.rs485->delay_after_send.count() < 0));
    return wrong ? std::make_error_code(std::errc::invalid_argument) : std::error_code();
}

tcflag_t size_bits(unsigned byte_size) noexcept {
    switch (byte_size) {
    case 5:
        return CS5;
    case 6:
        return CS6;
    case 7:
        return CS7;
    default:
        return CS8;
    }
}

tcflag_t parity_bits(Parity parity) noexcept {
    switch (parity) {
    case Parity::none:
        return 0;
    case Parity::odd:
        return PARENB | PARODD;
    case Parity::even:
        return PARENB;
    case Parity::mark:
        return PARENB | PARODD | CMSPAR;
    case Parity::space:
        return PARENB | CMSPAR;
    }
    return 0;
}

/// Every flag word is written whole: nothing that an earlier user left behind survives.
struct termios2 line_settings(const Options& options, const struct termios2& previous) noexcept {
    struct termios2 line = previous;
    line.c_iflag = options.xon_xoff ? IXON | IXOFF : 0;
    if (options.mark_errors) { // without marks a checked parity would turn damaged bytes into zeros
        line.c_iflag |= options.parity == Parity::none ? PARMRK : PARMRK | INPCK;
    }
    line.c_oflag = 0;
    line.c_lflag = 0;
    line.c_cflag = CREAD | CLOCAL | size_bits(options.byte_size) | parity_bits(options.parity);
    line.c_cflag |= options.stop_bits == StopBits::two ? CSTOPB : 0;
    line.c_cflag |= options.rts_cts ? CRTSCTS : 0;
    line.c_cflag |= options.hangup_on_close ? HUPCL : 0;
    const auto* rate = std::ranges::find(standard_rates, options.baud_rate, &Rate::bits_per_second);
    line.c_cflag |= rate != std::end(standard_rates) ? rate->code : BOTHER;
    line.c_ispeed = line.c_ospeed = options.baud_rate;
    line.c_cc[VMIN] = 1;
    line.c_cc[VTIME] = 0;
    line.c_cc[VSTART] = 0x11;
    line.c_cc[VSTOP] = 0x13;
    return line;
}

/// Whether the driver has done what it was asked for, as far as it matters for the bytes.
bool is_met(const struct termios2& asked, const struct termios2& got,
            std::uint32_t baud_rate) noexcept {
    constexpr tcflag_t matters = CSIZE | PARENB | PARODD | CMSPAR | CSTOPB | CRTSCTS;
    // A pty keeps any rate but has no line, and drops the parity that it could not add.
    const double off = std::abs(static_cast<double>(got.c_ospeed) - baud_rate) / baud_rate;
    return ((asked.c_cflag ^ got.c_cflag) & matters) == 0 && off <= 0.025;
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

/// What a driver without a feature answers, in one word.
std::unexpected<std::error_code> not_supported() noexcept {
    if (errno == ENOTTY || errno == EINVAL) {
        return failure(std::errc::operation_not_supported);
    }
    return last_failure();
}

Result<> control(int fd, unsigned long request, const void* argument) noexcept {
    if (::ioctl(fd, request, argument) != 0) {
        return last_failure();
    }
    return {};
}

Result<> set_low_latency(int fd, bool on, std::optional<struct serial_struct>& previous) noexcept {
    if (!on && !previous) {
        return {};
    }
    struct serial_struct driver{};
    if (::ioctl(fd, TIOCGSERIAL, &driver) != 0) {
        return not_supported();
    }
    if (!previous) {
        previous = driver;
    }
    constexpr int low_latency = static_cast<int>(ASYNC_LOW_LATENCY);
    driver.flags = on ? driver.flags | low_latency
                      : (driver.flags & ~low_latency) | (previous->flags & low_latency);
    if (::ioctl(fd, TIOCSSERIAL, &driver) != 0) {
        return not_supported();
    }
    return {};
}

Result<> set_rs485(int fd, const std::optional<Rs485>& wanted,
                   std::optional<struct serial_rs485>& previous) noexcept {
    if (!wanted && !previous) {
        return {};
    }
    struct serial_rs485 settings{};
    if (::ioctl(fd, TIOCGRS485, &settings) != 0) {
        return not_supported();
    }
    if (!previous) {
        previous = settings;
    }
    settings = wanted ? rs485_settings(*wanted, settings) : *previous;
    if (::ioctl(fd, TIOCSRS485, &settings) != 0) {
        return not_supported();
    }
    return {};
}

/// Both: TIOCEXCL keeps out who opens it later (but for root), flock who asks before he uses it.
Result<> take_alone(int fd) noexcept {
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return failure(errno == EWOULDBLOCK
                           ? std::make_error_code(std::errc::device_or_resource_busy)
                           : std::error_code(errno, std::system_category()));
    }
    return control(fd, TIOCEXCL, nullptr);
}

Result<> share(int fd) noexcept {
    Result<> shared = control(fd, TIOCNXCL, nullptr);
    if (::flock(fd, LOCK_UN) != 0 && shared) {
        shared = last_failure();
    }
    return shared;
}

Result<> set_line(int fd, int line, bool on) noexcept {
    return control(fd, on ? TIOCMBIS : TIOCMBIC, &line);
}

/// Success for a comfort that the driver lacks and the program can do without.
Result<> unless_optional(Result<> set, const Options& options) noexcept {
    if (!set && options.ignore_unsupported && set.error() == std::errc::operation_not_supported) {
        return {};
    }
    return set;
}

Result<std::size_t> count_of(int fd, unsigned long request) noexcept {
    int count = 0;
    if (::ioctl(fd, request, &count) != 0) {
        return last_failure();
    }
    return static_cast<std::size_t>(count);
}

} // namespace

Result<Port> Port::open(std::string_view path, const Options& options) {
    if (const std::error_code wrong = check(options)) {
        return failure(wrong);
    }
    Port port;
    port.path_ = path;
    OwnedDescriptor descriptor(
        ::open(port.path_.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!descriptor) {
        return last_failure();
    }
    const int fd = descriptor.get();
    decltype(port.previous_) previous(new detail::PreviousSettings);
    if (::ioctl(fd, TCGETS2, &previous->line) != 0) {
        return last_failure(); // ENOTTY
    }
    if (options.exclusive) {
        if (const Result<> alone = take_alone(fd); !alone) {
            return failure(alone.error());
        }
    }
    port.previous_ = std::move(previous);
    // Until the settings are in force, closing leaves the line as it was found.
    port.options_.exclusive = options.exclusive;
    port.options_.hangup_on_close = (port.previous_->line.c_cflag & HUPCL) != 0;
    Result<std::unique_ptr<penstock::detail::Pollable>> pollable =
        penstock::detail::adopt_waitable(std::move(descriptor));
    if (!pollable) {
        return failure(pollable.error());
    }
    port.pollable_ = std::move(*pollable);
    // Before all else: opening has just raised the lines, which the far end may take for a reset.
    for (const auto& [line, on] :
         {std::pair(TIOCM_RTS, options.initial_rts), std::pair(TIOCM_DTR, options.initial_dtr)}) {
        if (!on) {
            continue;
        }
        if (const Result<> set = set_line(fd, line, *on); !set) {
            return failure(set.error());
        }
    }
    if (const Result<> applied = port.apply(options); !applied) {
        return failure(applied.error());
    }
    port.options_ = options;
    // What came before the settings were right is noise.
    (void)port.reset_input();
    return port;
}

Result<> Port::configure(const Options& options) {
    if (!is_open()) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (const std::error_code wrong = check(options)) {
        return failure(wrong);
    }
    const auto own = [&](bool alone) {
        return alone ? take_alone(native_handle()) : share(native_handle());
    };
    if (options.exclusive != options_.exclusive) {
        if (Result<> owned = own(options.exclusive); !owned) {
            return owned;
        }
    }
    if (Result<> applied = apply(options); !applied) {
        (void)apply(options_); // which the driver could do before
        if (options.exclusive != options_.exclusive) {
            (void)own(options_.exclusive);
        }
        return applied;
    }
    options_ = options;
    return {};
}

Result<> Port::apply(const Options& options) {
    const int fd = native_handle();
    const struct termios2 asked = line_settings(options, previous_->line);
    if (::ioctl(fd, TCSETS2, &asked) != 0) {
        return last_failure();
    }
    struct termios2 got{};
    if (::ioctl(fd, TCGETS2, &got) != 0) {
        return last_failure();
    }
    if (!is_met(asked, got, options.baud_rate)) {
        return failure(std::errc::operation_not_supported);
    }
    if (Result<> set =
            unless_optional(set_low_latency(fd, options.low_latency, previous_->driver), options);
        !set) {
        return set;
    }
    return unless_optional(set_rs485(fd, options.rs485, previous_->rs485), options);
}

void Port::close() noexcept {
    if (!is_open()) {
        return;
    }
    const int fd = native_handle();
    (void)::ioctl(fd, TCFLSH, TCOFLUSH);
    if (const auto& rs485 = previous_->rs485) {
        (void)::ioctl(fd, TIOCSRS485, &*rs485);
    }
    if (const auto& driver = previous_->driver) {
        (void)::ioctl(fd, TIOCSSERIAL, &*driver);
    }
    struct termios2 line = previous_->line;
    line.c_cflag = options_.hangup_on_close ? line.c_cflag | HUPCL : line.c_cflag & ~HUPCL;
    (void)::ioctl(fd, TCSETS2, &line);
    if (options_.exclusive) {
        (void)::ioctl(fd, TIOCNXCL);
    }
    pollable_.reset();
}

Task<Result<>> Port::drain() {
    using std::chrono::microseconds;
    constexpr microseconds shortest(1'000);
    constexpr microseconds longest(50'000);
    for (;;) {
        const Result<std::size_t> waiting = output_waiting();
        if (!waiting) {
            co_return failure(waiting.error());
        }
        if (*waiting == 0) {
            co_return Result<>();
        }
        // Ten bits a byte.
        const microseconds left(*waiting * 10'000'000 / options_.baud_rate);
        if (const Result<> slept = co_await sleep_for(std::clamp(left, shortest, longest));
            !slept) {
            co_return slept;
        }
    }
}

Task<Result<>> Port::send_break(std::chrono::milliseconds duration) {
    if (const Result<> begun = control(native_handle(), TIOCSBRK, nullptr); !begun) {
        co_return begun;
    }
    const Result<> slept = co_await sleep_for(duration);
    const Result<> ended = control(native_handle(), TIOCCBRK, nullptr);
    co_return slept ? ended : slept;
}

Result<ModemLines> Port::modem_lines() const noexcept {
    int lines = 0;
    if (::ioctl(native_handle(), TIOCMGET, &lines) != 0) {
        return last_failure();
    }
    return ModemLines{.cts = (lines & TIOCM_CTS) != 0,
                      .dsr = (lines & TIOCM_DSR) != 0,
                      .ri = (lines & TIOCM_RNG) != 0,
                      .cd = (lines & TIOCM_CAR) != 0};
}

Result<> Port::data_terminal_ready(bool on) noexcept {
    return set_line(native_handle(), TIOCM_DTR, on);
}

Result<> Port::request_to_send(bool on) noexcept {
    return set_line(native_handle(), TIOCM_RTS, on);
}

Result<std::size_t> Port::input_waiting() const noexcept {
    return count_of(native_handle(), FIONREAD);
}

Result<std::size_t> Port::output_waiting() const noexcept {
    return count_of(native_handle(), TIOCOUTQ);
}

Result<> Port::reset_input() noexcept {
    if (::ioctl(native_handle(), TCFLSH, TCIFLUSH) != 0) {
        return last_failure();
    }
    return {};
}

Result<> Port::reset_output() noexcept {
    if (::ioctl(native_handle(), TCFLSH, TCOFLUSH) != 0) {
        return last_failure();
    }
    return {};
}

} // namespace penstock::serial
