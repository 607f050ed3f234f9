#include <penstock/serial/port.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/serial.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "serial/driver.hpp"
#include "serial/line_settings.hpp"

namespace penstock::serial {

namespace detail {

struct PreviousSettings {
    LineSettings line{};
    std::optional<struct serial_struct> driver{};
    std::optional<struct serial_rs485> rs485{};
    pid_t process = ::getpid(); ///< the process that opened the port
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
    const ssize_t count = DescriptorCalls::read(fd, into);
    return count == 0 && !into.empty() ? unplugged() : as_unplugged(count);
}

ssize_t PortCalls::read(int fd, std::span<const iovec> parts) noexcept {
    const ssize_t count = DescriptorCalls::read(fd, parts);
    return count == 0 ? unplugged() : as_unplugged(count);
}

ssize_t PortCalls::write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept {
    return as_unplugged(DescriptorCalls::write(fd, parts, offset));
}

} // namespace detail

namespace {

bool is_delay(std::chrono::milliseconds delay) noexcept {
    return delay.count() >= 0 && delay.count() <= std::numeric_limits<std::uint32_t>::max();
}

std::error_code check(const Options& options) noexcept {
    const bool wrong = options.baud_rate == 0 || options.byte_size < 5 || options.byte_size > 8 ||
                       (options.rs485 && (!is_delay(options.rs485->delay_before_send) ||
                                          !is_delay(options.rs485->delay_after_send)));
    return wrong ? std::make_error_code(std::errc::invalid_argument) : std::error_code();
}

/// Ignores an unsupported optional feature.
Result<> unless_optional(Result<> set, const Options& options) noexcept {
    if (!set && options.ignore_unsupported && set.error() == std::errc::operation_not_supported) {
        return {};
    }
    return set;
}

} // namespace

Result<Port> Port::open(std::string_view path, const Options& options) {
    if (const std::error_code wrong = check(options)) {
        return failure(wrong);
    }
    if (path.contains('\0')) {
        return failure(std::errc::invalid_argument);
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
    if (const Result<> found = driver::control(fd, get_line_settings, &previous->line); !found) {
        return failure(found.error()); // ENOTTY
    }
    auto line = std::make_shared<detail::Line>(fd);
    if (const Result<> taken =
            options.exclusive ? driver::lock_exclusive(fd) : driver::lock_shared(fd);
        !taken) {
        return failure(taken.error());
    }
    port.previous_ = std::move(previous);
    port.line_ = std::move(line);
    // Until the settings are applied, closing restores the line as it was.
    port.options_.exclusive = options.exclusive;
    port.options_.hangup_on_close = (port.previous_->line.c_cflag & HUPCL) != 0;
    Result<std::unique_ptr<penstock::detail::Pollable>> pollable =
        penstock::detail::adopt_nonblocking(std::move(descriptor));
    if (!pollable) {
        return failure(pollable.error());
    }
    port.pollable_ = std::move(*pollable);
    // The first step: open(2) has just raised the lines, which the remote side may interpret as a
    // reset.
    for (const auto& [bit, on] :
         {std::pair(TIOCM_RTS, options.initial_rts), std::pair(TIOCM_DTR, options.initial_dtr)}) {
        if (!on) {
            continue;
        }
        if (const Result<> set = driver::set_line(fd, bit, *on); !set) {
            return failure(set.error());
        }
    }
    if (const Result<> applied = port.apply(options); !applied) {
        return failure(applied.error());
    }
    port.options_ = options;
    // Bytes that arrived before the settings were applied are noise.
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
        return alone ? driver::lock_exclusive(native_handle())
                     : driver::downgrade_lock(native_handle());
    };
    if (options.exclusive != options_.exclusive) {
        if (Result<> owned = own(options.exclusive); !owned) {
            // A failed lock may have dropped the old one (flock(2)).
            if (!options_.exclusive) {
                (void)driver::lock_shared(native_handle());
            }
            return owned;
        }
    }
    if (Result<> applied = apply(options); !applied) {
        (void)apply(options_); // these worked before
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
    LineSettings asked = line_settings(options, previous_->line);
    if (Result<> set = driver::control(fd, set_line_settings, &asked); !set) {
        return set;
    }
    LineSettings got{};
    if (Result<> found = driver::control(fd, get_line_settings, &got); !found) {
        return found;
    }
    if (!is_applied(asked, got, options.baud_rate)) {
        return failure(std::errc::operation_not_supported);
    }
    actual_baud_rate_ = got.c_ospeed;
    line_->set_character_time(character_time(options, got.c_ospeed));
    if (Result<> set = unless_optional(
            driver::set_low_latency(fd, options.low_latency, previous_->driver), options);
        !set) {
        return set;
    }
    const bool by_port = options.rs485 && options.rs485->enabled && options.rs485->software;
    const std::optional<Rs485> by_driver = by_port ? std::nullopt : options.rs485;
    if (Result<> set = unless_optional(driver::set_rs485(fd, by_driver, previous_->rs485), options);
        !set) {
        return set;
    }
    Result<> switched = line_->set_software_rs485(by_port ? options.rs485 : std::nullopt);
    if (!switched) {
        (void)line_->set_software_rs485(std::nullopt);
    }
    return unless_optional(switched, options);
}

void Port::close() noexcept {
    if (!is_open()) {
        return;
    }
    // In a forked child this is a copy. The parent still uses the line.
    if (previous_->process != ::getpid()) {
        line_.reset();
        pollable_.reset();
        return;
    }
    const int fd = native_handle();
    (void)driver::discard_unsent(fd);
    line_->close();
    line_.reset();
    if (auto& rs485 = previous_->rs485) {
        (void)driver::control(fd, TIOCSRS485, &*rs485);
    }
    if (auto& flags = previous_->driver) {
        (void)driver::control(fd, TIOCSSERIAL, &*flags);
    }
    LineSettings settings = previous_->line;
    settings.c_cflag =
        options_.hangup_on_close ? settings.c_cflag | HUPCL : settings.c_cflag & ~HUPCL;
    (void)driver::control(fd, set_line_settings, &settings);
    driver::unlock(fd, options_.exclusive);
    pollable_.reset();
}

Result<ModemLines> Port::modem_lines() const noexcept {
    const Result<int> lines = driver::modem_bits(native_handle());
    if (!lines) {
        return failure(lines.error());
    }
    return ModemLines{.cts = (*lines & TIOCM_CTS) != 0,
                      .dsr = (*lines & TIOCM_DSR) != 0,
                      .ri = (*lines & TIOCM_RNG) != 0,
                      .cd = (*lines & TIOCM_CAR) != 0};
}

Result<ControlLines> Port::control_lines() const noexcept {
    const Result<int> lines = driver::modem_bits(native_handle());
    if (!lines) {
        return failure(lines.error());
    }
    return ControlLines{.rts = (*lines & TIOCM_RTS) != 0, .dtr = (*lines & TIOCM_DTR) != 0};
}

Result<> Port::data_terminal_ready(bool on) noexcept {
    return driver::set_line(native_handle(), TIOCM_DTR, on);
}

Result<> Port::request_to_send(bool on) noexcept {
    return driver::set_line(native_handle(), TIOCM_RTS, on);
}

Result<ErrorCounters> Port::error_counters() const noexcept {
    const Result<driver::Counters> counters = driver::counters(native_handle());
    if (!counters) {
        return failure(counters.error());
    }
    return counters->errors;
}

Result<std::size_t> Port::input_waiting() const noexcept {
    return driver::get_count(native_handle(), FIONREAD);
}

Result<std::size_t> Port::output_waiting() const noexcept {
    return driver::get_count(native_handle(), TIOCOUTQ);
}

Result<> Port::reset_input() noexcept {
    return driver::control(native_handle(), TCFLSH, TCIFLUSH);
}

Result<> Port::reset_output() noexcept {
    return driver::control(native_handle(), TCFLSH, TCOFLUSH);
}

} // namespace penstock::serial
