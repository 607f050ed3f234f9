#include <penstock/serial/detail/line.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <asm/termbits.h>
#include <sys/ioctl.h>

#include <penstock/serial/detail/software_rs485.hpp>
#include <penstock/task/timeout.hpp>

#include "serial/driver.hpp"

namespace penstock::serial::detail {

namespace {

using std::chrono::steady_clock;

/// The modem lines and, if the driver counts them, their changes. A counter detects a pulse that is
/// over before the next poll.
struct Activity {
    int lines = 0;
    std::optional<driver::Counters> counts;
};

Result<Activity> activity_of(int fd) noexcept {
    const Result<int> lines = driver::modem_bits(fd);
    if (!lines) {
        return failure(lines.error());
    }
    const Result<driver::Counters> counts = driver::counters(fd);
    if (!counts && counts.error() != std::errc::operation_not_supported) {
        return failure(counts.error());
    }
    return Activity{.lines = *lines, .counts = counts ? std::optional(*counts) : std::nullopt};
}

ModemLines changes(const Activity& before, const Activity& after, const ModemLines& wanted) {
    const auto changed = [&](bool chosen, int line, std::uint32_t driver::Counters::* count) {
        const bool counted =
            before.counts && after.counts && (*before.counts).*count != (*after.counts).*count;
        return chosen && (counted || ((before.lines ^ after.lines) & line) != 0);
    };
    return {.cts = changed(wanted.cts, TIOCM_CTS, &driver::Counters::cts),
            .dsr = changed(wanted.dsr, TIOCM_DSR, &driver::Counters::dsr),
            .ri = changed(wanted.ri, TIOCM_RI, &driver::Counters::ri),
            .cd = changed(wanted.cd, TIOCM_CD, &driver::Counters::cd)};
}

} // namespace

Result<> Line::begin_break() noexcept {
    if (in_break_) {
        return failure(std::errc::device_or_resource_busy);
    }
    Result<> begun = driver::control(fd_, TIOCSBRK);
    in_break_ = begun.has_value();
    return begun;
}

Result<> Line::end_break() noexcept {
    return std::exchange(in_break_, false) ? driver::control(fd_, TIOCCBRK) : Result<>();
}

void Line::close() noexcept {
    (void)end_break();
    if (bus_taken_ && mode_) {
        (void)driver::set_line(fd_, TIOCM_RTS, mode_->rts_after_send);
    }
    fd_ = -1;
    closed_.set();
}

Result<> Line::set_software_rs485(const std::optional<Rs485>& mode) noexcept {
    if (mode && !bus_taken_) { // otherwise the release of the bus uses the new settings
        const Result<> free =
            driver::as_optional_feature(driver::set_line(fd_, TIOCM_RTS, mode->rts_after_send));
        if (!free) {
            return free;
        }
    }
    mode_ = mode;
    return {};
}

Task<Result<>> Line::sleep_unless_closed(std::chrono::nanoseconds duration) {
    if (fd_ < 0) {
        co_return failure(std::errc::operation_canceled);
    }
    const Result<> woken = co_await timeout(duration, closed_.wait());
    if (!woken && woken.error() == std::errc::timed_out) {
        co_return Result<>();
    }
    co_return failure(std::errc::operation_canceled); // the port was closed, or the task cancelled
}

std::chrono::nanoseconds Line::transmit_time(std::size_t count) const noexcept {
    constexpr std::size_t most = 100'000'000; // does not overflow even at one bit a second
    return character_time_ * static_cast<std::int64_t>(std::min(count, most));
}

std::chrono::nanoseconds Line::poll_interval(std::size_t count) const noexcept {
    constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds(200);
    constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(10);
    return std::clamp(transmit_time(count), shortest, longest);
}

Task<Result<>> Line::drain_queue() {
    for (;;) {
        if (fd_ < 0) {
            co_return failure(std::errc::operation_canceled);
        }
        const Result<std::size_t> waiting = driver::get_count(fd_, TIOCOUTQ);
        if (!waiting) {
            co_return failure(waiting.error());
        }
        if (*waiting == 0) {
            co_return Result<>();
        }
        if (const Result<> slept = co_await sleep_unless_closed(poll_interval(*waiting)); !slept) {
            co_return slept;
        }
    }
}

Task<Result<>> Line::drain_transmitter(std::size_t count, steady_clock::time_point earliest) {
    if (const Result<> drained = co_await drain_queue(); !drained) {
        co_return drained;
    }
    for (;;) {
        const Result<bool> empty = driver::transmitter_is_empty(fd_);
        if (empty && *empty) {
            co_return Result<>();
        }
        if (!empty && empty.error() != std::errc::operation_not_supported) {
            co_return failure(empty.error());
        }
        if (!empty) {
            break;
        }
        if (const Result<> slept = co_await sleep_unless_closed(poll_interval(1)); !slept) {
            co_return slept;
        }
    }
    // The driver cannot report it. The UART holds at most its FIFO. Some drivers report too small a
    // FIFO, so wait for the whole message's time on the wire if that is known.
    const std::size_t left = std::min(count, driver::transmit_fifo(fd_));
    const std::chrono::nanoseconds rest =
        std::max<std::chrono::nanoseconds>(transmit_time(left), earliest - steady_clock::now());
    co_return co_await sleep_unless_closed(rest);
}

Task<Result<>> drain(std::shared_ptr<Line> line) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    co_return co_await line->drain_queue();
}

Task<Result<>> drain_exact(std::shared_ptr<Line> line) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    co_return co_await line->drain_transmitter(std::numeric_limits<std::size_t>::max(),
                                               steady_clock::time_point());
}

Task<Result<>> send_break(std::shared_ptr<Line> line, std::chrono::milliseconds duration) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    Rs485Transmission transmission(line);
    if (const Result<> begun = co_await transmission.begin(); !begun) {
        co_return begun;
    }
    if (const Result<> begun = line->begin_break(); !begun) {
        co_return begun;
    }
    Result<> slept;
    try {
        slept = co_await line->sleep_unless_closed(duration);
    } catch (...) { // no memory
        (void)line->end_break();
        throw;
    }
    const Result<> ended = line->end_break();
    if (!slept || !ended) {
        co_return slept ? ended : slept;
    }
    co_return co_await transmission.finish(0);
}

Task<Result<ModemLines>> modem_change(std::shared_ptr<Line> line, ModemLines lines) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    if (lines == ModemLines()) {
        co_return failure(std::errc::invalid_argument);
    }
    // Not TIOCMIWAIT, which would block a worker thread until a line changes.
    constexpr std::chrono::milliseconds line_poll_interval(10);
    const Result<Activity> before = activity_of(line->fd_);
    if (!before) {
        co_return failure(before.error());
    }
    for (;;) {
        if (const Result<> slept = co_await line->sleep_unless_closed(line_poll_interval); !slept) {
            co_return failure(slept.error());
        }
        const Result<Activity> after = activity_of(line->fd_);
        if (!after) {
            co_return failure(after.error());
        }
        const ModemLines changed = changes(*before, *after, lines);
        if (changed != ModemLines()) {
            co_return changed;
        }
    }
}

} // namespace penstock::serial::detail
