#include <penstock/detail/serial_line.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <asm/termbits.h>
#include <sys/ioctl.h>

#include <penstock/timeout.hpp>

#include "serial/driver.hpp"

namespace penstock::serial::detail {

namespace {

using std::chrono::steady_clock;

/// The lines, and how often each has changed where the driver counts that: a pulse is seen although it is
/// over by the time that somebody looks.
struct Activity {
    int lines = 0;
    std::optional<driver::Counters> counts;
};

Result<Activity> activity_of(int fd) noexcept {
    const Result<int> lines = driver::lines(fd);
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
    Result<> begun = driver::ask(fd_, TIOCSBRK);
    in_break_ = begun.has_value();
    return begun;
}

Result<> Line::end_break() noexcept {
    return std::exchange(in_break_, false) ? driver::ask(fd_, TIOCCBRK) : Result<>();
}

void Line::close() noexcept {
    (void)end_break();
    if (taken_ && mode_) {
        (void)driver::set_line(fd_, TIOCM_RTS, mode_->rts_after_send);
    }
    fd_ = -1;
    closed_.set();
}

Result<> Line::switch_by(const std::optional<Rs485>& mode) noexcept {
    if (mode && !taken_) { // else whoever has the bus lets it go, by these settings
        const Result<> free =
            driver::as_feature(driver::set_line(fd_, TIOCM_RTS, mode->rts_after_send));
        if (!free) {
            return free;
        }
    }
    mode_ = mode;
    return {};
}

Task<Result<>> Line::nap(std::chrono::nanoseconds duration) {
    if (fd_ < 0) {
        co_return failure(std::errc::operation_canceled);
    }
    const Result<> woken = co_await timeout(duration, closed_.wait());
    if (!woken && woken.error() == std::errc::timed_out) {
        co_return Result<>();
    }
    co_return failure(std::errc::operation_canceled); // by the port's end or the task's own
}

std::chrono::nanoseconds Line::time_of(std::size_t count) const noexcept {
    constexpr std::size_t most = 100'000'000; // fits at one bit a second too
    return character_time_ * static_cast<std::int64_t>(std::min(count, most));
}

std::chrono::nanoseconds Line::look_again_after(std::size_t count) const noexcept {
    constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds(200);
    constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(10);
    return std::clamp(time_of(count), shortest, longest);
}

Task<Result<>> Line::wait_until_handed_on() {
    for (;;) {
        if (fd_ < 0) {
            co_return failure(std::errc::operation_canceled);
        }
        const Result<std::size_t> waiting = driver::count_of(fd_, TIOCOUTQ);
        if (!waiting) {
            co_return failure(waiting.error());
        }
        if (*waiting == 0) {
            co_return Result<>();
        }
        if (const Result<> slept = co_await nap(look_again_after(*waiting)); !slept) {
            co_return slept;
        }
    }
}

Task<Result<>> Line::wait_until_sent(std::size_t count, steady_clock::time_point earliest) {
    if (const Result<> handed_on = co_await wait_until_handed_on(); !handed_on) {
        co_return handed_on;
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
        if (const Result<> slept = co_await nap(look_again_after(1)); !slept) {
            co_return slept;
        }
    }
    // The driver cannot tell. What the chip still has is at most its FIFO; and since some drivers tell
    // too small a one, the whole message's time on the wire is waited for where that is known.
    const std::size_t left = std::min(count, driver::transmit_fifo(fd_));
    const std::chrono::nanoseconds rest =
        std::max<std::chrono::nanoseconds>(time_of(left), earliest - steady_clock::now());
    co_return co_await nap(rest);
}

Task<Result<>> until_handed_on(std::shared_ptr<Line> line) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    co_return co_await line->wait_until_handed_on();
}

Task<Result<>> until_sent(std::shared_ptr<Line> line) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    co_return co_await line->wait_until_sent(std::numeric_limits<std::size_t>::max(),
                                             steady_clock::time_point());
}

Task<Result<>> hold_break(std::shared_ptr<Line> line, std::chrono::milliseconds duration) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    Turn turn(line);
    if (const Result<> begun = co_await turn.begin(); !begun) {
        co_return begun;
    }
    if (const Result<> begun = line->begin_break(); !begun) {
        co_return begun;
    }
    Result<> slept;
    try {
        slept = co_await line->nap(duration);
    } catch (...) { // no memory
        (void)line->end_break();
        throw;
    }
    const Result<> ended = line->end_break();
    if (!slept || !ended) {
        co_return slept ? ended : slept;
    }
    co_return co_await turn.end(0);
}

Task<Result<ModemLines>> until_change(std::shared_ptr<Line> line, ModemLines lines) {
    if (line == nullptr) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    if (lines == ModemLines()) {
        co_return failure(std::errc::invalid_argument);
    }
    // Not TIOCMIWAIT, which would hold a worker thread for as long as nothing changes.
    constexpr std::chrono::milliseconds look_again(10);
    const Result<Activity> before = activity_of(line->fd_);
    if (!before) {
        co_return failure(before.error());
    }
    for (;;) {
        if (const Result<> slept = co_await line->nap(look_again); !slept) {
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

Task<Result<>> Turn::begin() {
    if (!is_switched_) {
        co_return Result<>();
    }
    if (line_->taken_) {
        co_return failure(std::errc::device_or_resource_busy);
    }
    if (const Result<> taken = driver::set_line(line_->fd_, TIOCM_RTS, mode_.rts_on_send); !taken) {
        co_return taken;
    }
    line_->taken_ = has_bus_ = true;
    if (mode_.delay_before_send.count() > 0) {
        if (const Result<> slept = co_await line_->nap(mode_.delay_before_send); !slept) {
            co_return slept;
        }
    }
    begun_ = steady_clock::now();
    co_return Result<>();
}

Task<Result<>> Turn::end(std::size_t count) {
    if (!has_bus_) {
        co_return Result<>();
    }
    const Result<> sent = co_await line_->wait_until_sent(count, begun_ + line_->time_of(count));
    if (!sent) {
        co_return sent;
    }
    if (mode_.delay_after_send.count() > 0) {
        if (const Result<> slept = co_await line_->nap(mode_.delay_after_send); !slept) {
            co_return slept;
        }
    }
    co_return let_go();
}

Result<> Turn::let_go() noexcept {
    has_bus_ = line_->taken_ = false;
    const Rs485 mode = line_->mode_.value_or(mode_);
    return driver::set_line(line_->fd_, TIOCM_RTS, mode.rts_after_send);
}

Turn::~Turn() {
    if (!has_bus_) {
        return;
    }
    if (line_->fd_ < 0) { // closing has let it go
        return;
    }
    const Result<> discarded = driver::discard_unsent(line_->fd_);
    if (discarded || discarded.error() != std::errc::no_such_device) {
        (void)let_go();
    }
    line_->taken_ = false;
}

} // namespace penstock::serial::detail
