#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/result.hpp>
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task.hpp>

namespace penstock::serial::detail {

/// An open port as its tasks see it that wait for more than readiness: drains, breaks, writes to a bus
/// that is switched in software. They share it with the port, which may be moved and closed meanwhile:
/// they end with `operation_canceled` then and touch the descriptor no more, which by that time may be
/// another file's.
class Line {
public:
    explicit Line(int fd) noexcept : fd_(fd) {}
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    /// Ends a break, lets the bus go, and wakes who waits.
    void close() noexcept;

    /// How the port itself is to switch the bus, from now on; it lets the bus go first. Without a mode it
    /// does not switch.
    Result<> switch_by(const std::optional<Rs485>& mode) noexcept;
    [[nodiscard]] bool is_switched() const noexcept { return mode_.has_value(); }

    void set_character_time(std::chrono::nanoseconds time) noexcept { character_time_ = time; }

private:
    friend class Turn;
    friend Task<Result<>> until_handed_on(std::shared_ptr<Line> line);
    friend Task<Result<>> until_sent(std::shared_ptr<Line> line);
    friend Task<Result<>> hold_break(std::shared_ptr<Line> line,
                                     std::chrono::milliseconds duration);
    friend Task<Result<ModemLines>> until_change(std::shared_ptr<Line> line, ModemLines lines);

    Result<> begin_break() noexcept;
    /// Safe to call again.
    Result<> end_break() noexcept;

    /// Waits; `operation_canceled` also when the port is closed.
    [[nodiscard]] Task<Result<>> nap(std::chrono::nanoseconds duration);

    /// How long characters take on the wire.
    [[nodiscard]] std::chrono::nanoseconds time_of(std::size_t count) const noexcept;

    /// The same within bounds, for asking the driver again: neither all the time nor too late.
    [[nodiscard]] std::chrono::nanoseconds look_again_after(std::size_t count) const noexcept;

    [[nodiscard]] Task<Result<>> wait_until_handed_on();

    /// Until the last bit is on the wire, of which at most `count` characters are left, the last one not
    /// before `earliest`.
    [[nodiscard]] Task<Result<>> wait_until_sent(std::size_t count,
                                                 std::chrono::steady_clock::time_point earliest);

    int fd_;
    std::chrono::nanoseconds character_time_{0};
    std::optional<Rs485> mode_;
    bool taken_ = false;
    bool in_break_ = false;
    sync::Event closed_;
};

/// The tasks of `Port`; `line` is null when it is closed.
[[nodiscard]] Task<Result<>> until_handed_on(std::shared_ptr<Line> line);
[[nodiscard]] Task<Result<>> until_sent(std::shared_ptr<Line> line);
[[nodiscard]] Task<Result<>> hold_break(std::shared_ptr<Line> line,
                                        std::chrono::milliseconds duration);
[[nodiscard]] Task<Result<ModemLines>> until_change(std::shared_ptr<Line> line, ModemLines lines);

/// What one sender does with a bus that the port switches: it takes it, sends, and lets it go. A turn that
/// does not come to `end` discards what has not left, or it would go out on a bus of others. On a line
/// that is not switched it does nothing.
class Turn {
public:
    explicit Turn(std::shared_ptr<Line> line) noexcept
        : line_(std::move(line)), mode_(line_->mode_.value_or(Rs485())),
          is_switched_(line_->is_switched()) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

    /// `device_or_resource_busy` while somebody else has it.
    [[nodiscard]] Task<Result<>> begin();

    /// After `count` bytes were written.
    [[nodiscard]] Task<Result<>> end(std::size_t count);

private:
    /// By the settings that are in force by then.
    Result<> let_go() noexcept;

    std::shared_ptr<Line> line_;
    Rs485 mode_;
    bool is_switched_;
    std::chrono::steady_clock::time_point begun_;
    bool has_bus_ = false;
};

} // namespace penstock::serial::detail
